package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// resourceName is what the plugin offers.
const resourceName = "nvidia.com/gpu"

// devices is a device plugin whose devices are files.
type devices struct {
	api.UnimplementedDevicePluginServer
	folder string // of the files
	ids    []string
}

func (d *devices) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch tells of the devices once: they never change.
func (d *devices) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	var all []*api.Device
	for _, id := range d.ids {
		all = append(all, &api.Device{ID: id, Health: api.Healthy})
	}
	if err := stream.Send(&api.ListAndWatchResponse{Devices: all}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate gives a container the files of its devices, and tells it which they are.
func (d *devices) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, c := range request.ContainerRequests {
		r := &api.ContainerAllocateResponse{Envs: map[string]string{deviceVariable: strings.Join(c.DevicesIds, ",")}}
		for _, id := range c.DevicesIds {
			r.Mounts = append(r.Mounts, &api.Mount{ContainerPath: filepath.Join(deviceFolder, id), HostPath: filepath.Join(d.folder, id)})
		}
		answer.ContainerResponses = append(answer.ContainerResponses, r)
		log.Printf("allocated %v", c.DevicesIds)
	}
	return answer, nil
}

// plugin serves the devices until it is killed. A kubelet that starts empties the folder of sockets: then it registers anew,
// as device plugins have to.
func plugin(args []string) int {
	f := flag.NewFlagSet("plugin", flag.ExitOnError)
	sockets := f.String("sockets", api.DevicePluginPath, "the kubelet's folder of sockets")
	folder := f.String("devices", "", "folder for the devices' files, as the node sees it")
	count := f.Int("count", 4, "how many devices there are")
	f.Parse(args)
	d := &devices{folder: *folder}
	for i := range *count {
		id := fmt.Sprintf("GPU-%d", i)
		if err := os.WriteFile(filepath.Join(*folder, id), nil, 0o644); err != nil {
			log.Print(err)
			return 1
		}
		d.ids = append(d.ids, id)
	}
	for last := ""; ; {
		if err := d.serve(*sockets); err.Error() != last {
			last = err.Error()
			log.Print(last)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// serve registers, and returns when the socket is gone or registration failed.
func (d *devices) serve(sockets string) error {
	const name = "berth-test.sock"
	socket := filepath.Join(sockets, name)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, d)
	go server.Serve(listener)
	defer server.Stop()
	kubelet, err := grpc.NewClient("unix://"+filepath.Join(sockets, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: name, ResourceName: resourceName, Options: &api.DevicePluginOptions{}}
	if _, err := api.NewRegistrationClient(kubelet).Register(ctx, request); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	log.Printf("registered %d of %s", len(d.ids), resourceName)
	for {
		if _, err := os.Stat(socket); err != nil {
			return fmt.Errorf("the kubelet took the socket away: %w", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
