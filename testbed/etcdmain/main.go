// Command etcdmain is etcd itself. Its own module has replace directives and therefore cannot be installed by version.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
