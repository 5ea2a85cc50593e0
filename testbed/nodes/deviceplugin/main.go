// Command deviceplugin plays the device plugin of a node with GPUs: one resource name for each GPU, as many devices
// as it has slices. A container that gets slices of GPU 1 finds /dev/nvidia1 and the GPU's name in its environment.
// `deviceplugin pods` prints what the kubelet says who holds, as lines "namespace pod resource count".
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	resources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	podResources = "unix:///var/lib/kubelet/pod-resources/kubelet.sock"
	poll         = 200 * time.Millisecond
	patience     = 5 * time.Second
)

// GPU serves the slices of one GPU.
type GPU struct {
	plugin.UnimplementedDevicePluginServer
	index, slices int
}

func (g *GPU) resource() string { return fmt.Sprintf("nvidia.com/gpu-%d", g.index) }
func (g *GPU) socket() string   { return fmt.Sprintf("stand-in-gpu-%d.sock", g.index) }
func (g *GPU) uuid() string     { return fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", g.index) }

// GetDevicePluginOptions asks for no further calls.
func (g *GPU) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

// ListAndWatch says once that all slices are well.
func (g *GPU) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	devices := make([]*plugin.Device, g.slices)
	for slice := range devices {
		devices[slice] = &plugin.Device{ID: fmt.Sprintf("%s::%d", g.uuid(), slice), Health: plugin.Healthy}
	}
	if err := stream.Send(&plugin.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate gives a container the GPU's device node, which is /dev/null's, and its name.
func (g *GPU) Allocate(_ context.Context, request *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	response := &plugin.AllocateResponse{}
	for range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &plugin.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": g.uuid()},
			Devices: []*plugin.DeviceSpec{{
				HostPath:      "/dev/null",
				ContainerPath: fmt.Sprintf("/dev/nvidia%d", g.index),
				Permissions:   "rw",
			}},
		})
	}
	return response, nil
}

// serve offers the GPU to the kubelet that listens in a folder, until the server is stopped.
func (g *GPU) serve(folder string) (*grpc.Server, error) {
	path := filepath.Join(folder, g.socket())
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	plugin.RegisterDevicePluginServer(server, g)
	go server.Serve(listener)
	return server, g.register(folder)
}

func (g *GPU) register(folder string) error {
	kubelet, err := connect("unix://" + filepath.Join(folder, "kubelet.sock"))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = plugin.NewRegistrationClient(kubelet).Register(ctx, &plugin.RegisterRequest{
		Version:      plugin.Version,
		Endpoint:     g.socket(),
		ResourceName: g.resource(),
		Options:      &plugin.DevicePluginOptions{},
	})
	return err
}

func connect(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// identity tells one kubelet's socket from the next one's: a kubelet that starts deletes all sockets of the folder.
func identity(folder string) string {
	status, err := os.Stat(filepath.Join(folder, "kubelet.sock"))
	if err != nil {
		return ""
	}
	return fmt.Sprint(status.Sys())
}

func serveAll(folder string, gpus, slices int) {
	var servers []*grpc.Server
	served := ""
	for ; ; time.Sleep(poll) {
		kubelet := identity(folder)
		if kubelet == "" || kubelet == served {
			continue
		}
		for _, server := range servers {
			server.Stop()
		}
		servers, served = nil, kubelet
		for index := range gpus {
			gpu := &GPU{index: index, slices: slices}
			server, err := gpu.serve(folder)
			if server != nil {
				servers = append(servers, server)
			}
			if err != nil {
				log.Printf("%s is not registered: %v", gpu.resource(), err)
				served = ""
				continue
			}
			log.Printf("%s is registered", gpu.resource())
		}
	}
}

func printPods() error {
	kubelet, err := connect(podResources)
	if err != nil {
		return err
	}
	defer kubelet.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	listed, err := resources.NewPodResourcesListerClient(kubelet).List(ctx, &resources.ListPodResourcesRequest{})
	if err != nil {
		return err
	}
	for _, pod := range listed.PodResources {
		for _, container := range pod.Containers {
			for _, devices := range container.Devices {
				fmt.Println(pod.Namespace, pod.Name, devices.ResourceName, len(devices.DeviceIds))
			}
		}
	}
	return nil
}

func main() {
	folder := flag.String("folder", "/var/lib/kubelet/device-plugins", "where the kubelet listens")
	gpus := flag.Int("gpus", 2, "GPUs of the node")
	slices := flag.Int("slices", 8, "slices of each GPU")
	flag.Parse()
	if flag.Arg(0) == "pods" {
		if err := printPods(); err != nil {
			log.Fatal(err)
		}
		return
	}
	serveAll(*folder, *gpus, *slices)
}
