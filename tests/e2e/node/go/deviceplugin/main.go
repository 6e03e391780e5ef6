// Command deviceplugin offers pretended GPUs to a kubelet, with the device nodes that the vendors' own plugins hand out:
//
//	amd.com/gpu      /dev/kfd and one /dev/dri/renderD<128+n> for each GPU
//	nvidia.com/gpu   /dev/nvidiactl and one /dev/nvidia<n> for each GPU, and NVIDIA_VISIBLE_DEVICES
//
// The nodes must exist in the kubelet's /dev; owner, group and mode are carried over into the container. SIGUSR1 makes
// the last GPU unhealthy, SIGUSR2 makes it healthy again.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	resource string
	gpus     int

	mutex   sync.Mutex
	sick    bool
	changed chan struct{}
}

func main() {
	resource := flag.String("resource", "", "amd.com/gpu or nvidia.com/gpu")
	gpus := flag.Int("gpus", 0, "how many")
	flag.Parse()
	one := &plugin{resource: *resource, gpus: *gpus, changed: make(chan struct{})}
	go one.obeySignals()
	for {
		if err := one.serve(); err != nil {
			log.Printf("not registered: %v", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// serve registers with the kubelet and returns when the kubelet has started anew, for it then forgets its plugins.
func (p *plugin) serve() error {
	socket := filepath.Join(api.DevicePluginPath, strings.ReplaceAll(p.resource, "/", "_")+".sock")
	os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go server.Serve(listener)
	defer server.Stop()
	if err := p.register(filepath.Base(socket)); err != nil {
		return err
	}
	log.Printf("registered %d %s", p.gpus, p.resource)
	for {
		time.Sleep(200 * time.Millisecond)
		if _, err := os.Stat(socket); err != nil {
			return nil
		}
	}
}

func (p *plugin) register(endpoint string) error {
	kubelet, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: p.resource}
	_, err = api.NewRegistrationClient(kubelet).Register(limited, request)
	return err
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices at once and again whenever their health changes.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for {
		devices, changed := p.devices()
		if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *plugin) devices() ([]*api.Device, chan struct{}) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	devices := make([]*api.Device, p.gpus)
	for number := range devices {
		health := api.Healthy
		if p.sick && number == p.gpus-1 {
			health = api.Unhealthy
		}
		devices[number] = &api.Device{ID: strconv.Itoa(number), Health: health}
	}
	return devices, p.changed
}

// Allocate hands the device nodes of the chosen GPUs to each container that asked.
func (p *plugin) Allocate(_ context.Context, asked *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, container := range asked.ContainerRequests {
		numbers := make([]int, 0, len(container.DevicesIds))
		for _, id := range container.DevicesIds {
			number, err := strconv.Atoi(id)
			if err != nil {
				return nil, err
			}
			numbers = append(numbers, number)
		}
		sort.Ints(numbers)
		answer.ContainerResponses = append(answer.ContainerResponses, p.handOut(numbers))
	}
	return answer, nil
}

func (p *plugin) handOut(numbers []int) *api.ContainerAllocateResponse {
	if strings.HasPrefix(p.resource, "amd.") {
		return &api.ContainerAllocateResponse{Devices: nodes("/dev/kfd", "/dev/dri/renderD", 128, numbers)}
	}
	names := make([]string, len(numbers))
	for place, number := range numbers {
		names[place] = strconv.Itoa(number)
	}
	return &api.ContainerAllocateResponse{
		Devices: nodes("/dev/nvidiactl", "/dev/nvidia", 0, numbers),
		Envs:    map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(names, ",")},
	}
}

// nodes are the device node that all GPUs share and one for each number.
func nodes(shared, each string, first int, numbers []int) []*api.DeviceSpec {
	paths := []string{shared}
	for _, number := range numbers {
		paths = append(paths, fmt.Sprintf("%s%d", each, first+number))
	}
	specs := make([]*api.DeviceSpec, len(paths))
	for place, path := range paths {
		specs[place] = &api.DeviceSpec{ContainerPath: path, HostPath: path, Permissions: "rw"}
	}
	return specs
}

func (p *plugin) obeySignals() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	for received := range signals {
		p.mutex.Lock()
		p.sick = received == syscall.SIGUSR1
		close(p.changed)
		p.changed = make(chan struct{})
		p.mutex.Unlock()
	}
}
