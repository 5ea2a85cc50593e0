// Package nvfm has the names of NVIDIA's bindings of its fabric manager that the DRA driver compiles against.
// The driver asks for them only on machines with NVSwitches; here every call fails.
package nvfm

type (
	Return            int
	FabricPartitionId uint32
	LibraryOption     func()
	ConnectOption     func()
)

const (
	SUCCESS      Return = 0
	notInstalled Return = -1
)

func (r Return) String() string { return "the fabric manager is not installed" }

type GpuInfo struct {
	PhysicalId          uint32
	Uuid, PciBusId      [80]int8
	NumNvLinksAvailable uint32
	MaxNumNvLinks       uint32
	NvlinkLineRateMBps  uint32
}

type PartitionInfo struct {
	PartitionId, IsActive, NumGpus uint32
	GpuInfo                        [16]GpuInfo
}

type FabricPartitionList struct {
	NumPartitions uint32
	PartitionInfo [64]PartitionInfo
}

type Handle interface {
	Disconnect() Return
	GetSupportedFabricPartitions() (FabricPartitionList, Return)
	ActivateFabricPartition(FabricPartitionId) Return
	DeactivateFabricPartition(FabricPartitionId) Return
}

type Interface interface {
	Init() Return
	Shutdown() Return
	Connect(...ConnectOption) (Handle, Return)
}

type absent struct{}

func New(...LibraryOption) Interface { return absent{} }

func (absent) Init() Return                              { return notInstalled }
func (absent) Shutdown() Return                          { return notInstalled }
func (absent) Connect(...ConnectOption) (Handle, Return) { return nil, notInstalled }

func WithLibraryPath(string) LibraryOption { return func() {} }
func WithUnixSocket(string) ConnectOption  { return func() {} }
func WithAddress(string) ConnectOption     { return func() {} }
func WithTimeoutMs(uint32) ConnectOption      { return func() {} }
