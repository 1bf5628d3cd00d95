// Announces a node's simulated GPUs to its kubelet, and hands a container exactly the device files it was allotted.
//
// It stands where NVIDIA's device plugin stands on real hardware, under the same resource name. A GPU that the simulation says is missing,
// or whose device file is gone, is announced as unhealthy: the node then has one GPU less to give.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	socket   = "rackwright-gpu.sock"
	// How often GPUs and the kubelet's socket are looked at.
	interval = time.Second
)

type plugin struct {
	api.UnimplementedDevicePluginServer
}

func main() {
	log.SetFlags(0)
	for {
		if err := serveOnce(); err != nil {
			log.Printf("%v; trying again", err)
		}
		time.Sleep(interval)
	}
}

// serveOnce serves until the kubelet has started anew: it then forgets its plugins and removes their sockets.
func serveOnce() error {
	kubelet, err := os.Stat(api.KubeletSocket)
	if err != nil {
		return fmt.Errorf("no kubelet yet: %w", err)
	}
	path := filepath.Join(api.DevicePluginPath, socket)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer server.Stop()
	api.RegisterDevicePluginServer(server, &plugin{})
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if err := register(); err != nil {
		return fmt.Errorf("the kubelet does not take the plugin: %w", err)
	}
	log.Printf("%d simulated GPUs announced as %s", len(look()), resource)
	for {
		select {
		case err := <-failed:
			return err
		case <-time.After(interval):
			now, err := os.Stat(api.KubeletSocket)
			if _, gone := os.Stat(path); err != nil || gone != nil || !os.SameFile(kubelet, now) {
				return fmt.Errorf("the kubelet has started anew")
			}
		}
	}
}

func register() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: socket, ResourceName: resource, Options: &api.DevicePluginOptions{},
	})
	return err
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch tells the kubelet once, and again whenever a GPU comes, goes or changes its health.
func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	told := ""
	for {
		if devices := look(); fmt.Sprint(devices) != told {
			if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
				return err
			}
			told = fmt.Sprint(devices)
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// Allocate gives each container its device files, and their numbers in NVIDIA_VISIBLE_DEVICES.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, allotment(container.DevicesIds))
	}
	return answer, nil
}
