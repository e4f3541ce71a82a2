package kubelet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/dra"
	"github.com/berth-dev/berth/fleet/gpu"
)

// domainBed answers for compute domains as a test wants.
type domainBed struct {
	mu    sync.Mutex
	err   error
	calls []string
}

func (d *domainBed) Use(_ context.Context, node string, pod types.UID, claim types.NamespacedName, uid types.UID, use dra.DomainUse) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) == 0 {
		d.calls = append(d.calls, fmt.Sprint("use ", node, " ", pod, " ", claim, " ", uid, " ", use))
	}
	return d.err
}

func (d *domainBed) Leave(node string, pod types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls[len(d.calls)-1] != "leave" {
		d.calls = append(d.calls, "leave")
	}
}

func (d *domainBed) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// channelClaim is pod "p"'s claim "channel", with the channel of machine "n0" and other devices.
func channelClaim(others ...string) *resourcev1.ResourceClaim {
	c := allocated("channel", []string{"p"}, append([]string{"channel=channel-0"}, others...)...)
	c.Status.Allocation.Devices.Results[0].Driver = dra.DomainDriver
	config := resourcev1.DeviceAllocationConfiguration{Source: resourcev1.AllocationConfigSourceClaim}
	config.Opaque = &resourcev1.OpaqueDeviceConfiguration{Driver: dra.DomainDriver}
	config.Opaque.Parameters.Raw = []byte(`{"kind":"ComputeDomainChannelConfig","domainID":"uid-train"}`)
	c.Status.Allocation.Devices.Config = append(c.Status.Allocation.Devices.Config, config)
	return c
}

// newDomainWorld is a world whose machine "n0" is in an NVLink domain, and a claim of pod "p" for a channel there.
func newDomainWorld(t *testing.T) (*world, *domainBed) {
	bed := &domainBed{}
	w := newWorld(t, channelClaim("gpu=gpu-0"))
	w.k.domains = bed
	gb200, _ := gpu.Lookup("gb200")
	m := w.addMachine("n0", 0)
	m.Devices = device.New(device.Config{
		Devices: gpu.Devices("n0", []gpu.Group{{Model: gb200, Count: 4}}), HostDriver: true,
		Driver: gpu.Driver{Version: "580.95.05", CUDA: "13.0"}, Advertise: device.ByDRA, Clique: "nvl72.0",
	})
	m.Devices.SetStack(draPods(), time.Now())
	return w, bed
}

// A pod with a channel is in ContainerCreating until its node is in the domain. The driver tries for a while before it complains.
func TestChannelsWaitForTheirDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, bed := newDomainWorld(t)
		bed.set(errors.New("current node not ready in ComputeDomain"))
		w.create(testPod("p", "pause", claims("channel")))
		wait := func(d time.Duration) *corev1.PodStatus {
			time.Sleep(d)
			synctest.Wait()
			return &w.get("p").Status
		}
		if got := state(&wait(domainPatience - time.Second).ContainerStatuses[0]); got != "waiting ContainerCreating" || len(w.said("p")) > 0 {
			t.Errorf("%s, and it said %q", got, w.said("p"))
		}
		wait(3 * time.Second)
		want := "NodePrepareResources failed for ResourceClaim channel: error preparing devices for claim 'default/channel:claim-channel': prepare devices failed: current node not ready in ComputeDomain"
		if said := w.said("p"); len(said) != 1 || !strings.HasSuffix(said[0], want) {
			t.Errorf("it says %q", said)
		}
		wait(domainPatience / 2)
		if said := w.said("p"); len(said) != 1 {
			t.Errorf("it says again %q", said)
		}
		bed.set(nil)
		if s := wait(2 * domainRetry); s.Phase != corev1.PodRunning {
			t.Errorf("it is %s", s.Phase)
		}
		w.remove("p", time.Second)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := strings.Join(bed.calls, ", "); got != "use n0 uid-p default/channel claim-channel {uid-train false}, leave" {
			t.Error(got)
		}
	})
}

// What cannot get better is told at once.
func TestChannelsThatNobodyGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, bed := newDomainWorld(t)
		bed.set(dra.PermanentError{Err: errors.New("ComputeDomain not found: uid-train")})
		w.create(testPod("p", "pause", claims("channel")))
		time.Sleep(domainRetry)
		synctest.Wait()
		if said := w.said("p"); len(said) == 0 || !strings.HasSuffix(said[0], ": ComputeDomain not found: uid-train") {
			t.Errorf("it says %q", said)
		}
	})
}

// A machine whose GPUs a device plugin counts prepares claims for channels, as long as the driver is there.
func TestChannelsBesideADevicePlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channelClaim())
		w.k.domains = &domainBed{}
		m := w.addMachine("n0", 0)
		m.Devices = device.New(device.Config{Devices: gpu.Devices("n0", []gpu.Group{{Count: 4}}), HostDriver: true, Driver: gpu.Driver{Version: "580.95.05"}, Clique: "nvl72.0"})
		w.create(testPod("p", "pause", claims("channel")))
		time.Sleep(time.Minute)
		if got := w.get("p").Status.Phase; got != corev1.PodPending {
			t.Errorf("without the driver it is %s", got)
		}
		m.Devices.SetStack([]device.StackPod{{Name: "gpu-operator/channels", Role: device.Channels, Ready: true, HostPaths: []string{"/var/lib/kubelet"}}}, time.Now())
		time.Sleep(5 * time.Minute)
		if got := w.get("p").Status.Phase; got != corev1.PodRunning {
			t.Errorf("with the driver it is %s", got)
		}
	})
}
