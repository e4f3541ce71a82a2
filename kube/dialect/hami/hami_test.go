package hami

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRegister has the bytes that MarshalNodeDevices of HAMi v2.10.0 makes of such devices: fields in the order of DeviceInfo, those
// that are zero left out (pkg/device/devices.go).
func TestRegister(t *testing.T) {
	devices := []Device{
		{ID: "GPU-0fc3eda5", Count: 10, Memory: 32768, Cores: 100, Type: "NVIDIA-Tesla V100-PCIE-32GB", Mode: Core, Health: true},
		{ID: "GPU-ebe7c3f7", Index: 1, Count: 10, Memory: 32768, Cores: 100, Type: "NVIDIA-Tesla V100-PCIE-32GB", NUMA: 1, Mode: Core},
	}
	want := `[{"id":"GPU-0fc3eda5","count":10,"devmem":32768,"devcore":100,"type":"NVIDIA-Tesla V100-PCIE-32GB","mode":"hami-core","health":true},` +
		`{"id":"GPU-ebe7c3f7","index":1,"count":10,"devmem":32768,"devcore":100,"type":"NVIDIA-Tesla V100-PCIE-32GB","numa":1,"mode":"hami-core"}]`
	if diff := cmp.Diff(want, Register(devices)); diff != "" {
		t.Errorf("register (-want +got):\n%s", diff)
	}
	got, err := Registered(want)
	if diff := cmp.Diff(devices, got); diff != "" || err != nil {
		t.Errorf("read back: %v (-want +got):\n%s", err, diff)
	}
}

func TestRegisterThatMakesNoSense(t *testing.T) {
	for name, text := range map[string]string{
		"empty":         "",
		"the old codec": "GPU-1,10,32768,100,NVIDIA,0,true:",
		"no id":         `[{"count":10}]`,
		"an id twice":   `[{"id":"a"},{"id":"a"}]`,
		"negative":      `[{"id":"a","devmem":-1}]`,
		"a separator":   `[{"id":"a,b"}]`,
		"too large":     `[{"id":"a","devmem":99999999999}]`,
		"too long":      `[` + strings.Repeat(" ", maxRegister) + `]`,
		"too many":      `[` + strings.Repeat(`{"id":"a"},`, maxDevices) + `{"id":"a"}]`,
	} {
		if got, err := Registered(text); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAllocation has the bytes of EncodePodSingleDevice of HAMi v2.10.0, and the keys of PatchAnnotations and Bind.
func TestAllocation(t *testing.T) {
	now := time.Unix(1763337600, 0)
	want := map[string]string{
		"hami.io/vgpu-node": "n0", "hami.io/vgpu-time": "1763337600", "hami.io/bind-time": "1763337600", "hami.io/bind-phase": "allocating",
		"hami.io/vgpu-devices-to-allocate": ";GPU-936619fc,NVIDIA,1000,10:GPU-ebe7c3f7,NVIDIA,3000,0:;",
		"hami.io/vgpu-devices-allocated":   ";GPU-936619fc,NVIDIA,1000,10:GPU-ebe7c3f7,NVIDIA,3000,0:;",
	}
	grants := [][]Grant{nil, {{UUID: "GPU-936619fc", Memory: 1000, Cores: 10}, {UUID: "GPU-ebe7c3f7", Memory: 3000}}}
	own := Own()
	got := own.Allocation("n0", now, grants)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	back, ok := Grants(got[KeyToAllocate])
	if diff := cmp.Diff(grants, back); diff != "" || !ok {
		t.Errorf("read back: %v (-want +got):\n%s", ok, diff)
	}
	for _, bad := range []string{"a:", "a,b,c,d:;", "GPU-1,NVIDIA,-1,0:;", ",NVIDIA,1,1:"} {
		if got, ok := Grants(bad); ok {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func TestLock(t *testing.T) {
	now := time.Date(2026, 11, 17, 3, 0, 0, 0, time.UTC)
	text := Lock(now, "team", "a")
	if text != "2026-11-17T03:00:00Z,team,a" {
		t.Errorf("lock %q", text)
	}
	since, namespace, pod, ok := LockedFor(text)
	if !since.Equal(now) || namespace != "team" || pod != "a" || !ok {
		t.Errorf("read back: %v %s/%s %v", since, namespace, pod, ok)
	}
	if since, _, pod, ok := LockedFor("2026-11-17T03:00:00Z"); !since.Equal(now) || pod != "" || !ok {
		t.Errorf("the time alone: %v %s %v", since, pod, ok)
	}
	if _, _, _, ok := LockedFor("nobody"); ok {
		t.Error("a lock without a time is read")
	}
}

// TestVolcanosEdition has the bytes of EncodeNodeDevices and EncodePodDevices of volcano-vgpu-device-plugin, commit 4fb76ba1.
func TestVolcanosEdition(t *testing.T) {
	e := Volcano()
	text := "GPU-a,10,40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,hami-core:GPU-b,7,81920,NVIDIA-NVIDIA H100 80GB HBM3,false,mig:"
	list, err := e.Devices(text)
	want := []Device{
		{ID: "GPU-a", Count: 10, Memory: 40960, Cores: 100, Type: "NVIDIA-NVIDIA A100-SXM4-40GB", NUMA: -1, Mode: Core, Health: true},
		{ID: "GPU-b", Index: 1, Count: 7, Memory: 81920, Cores: 100, Type: "NVIDIA-NVIDIA H100 80GB HBM3", NUMA: -1, Mode: "mig"},
	}
	if diff := cmp.Diff(want, list); diff != "" || err != nil || e.Registration(list) != text {
		t.Errorf("%v, written %q (-want +got):\n%s", err, e.Registration(list), diff)
	}
	for _, bad := range []string{"GPU-a,10,40960:", "GPU-a,ten,1,x,true,mig:", "GPU-a,1,1,x,true:GPU-a,1,1,x,true:", ",1,1,x,true:"} {
		if list, err := e.Devices(bad); err == nil {
			t.Errorf("%q is read as %v", bad, list)
		}
	}
	got := e.Allocation("n0", time.Unix(1763337600, 0), [][]Grant{nil, {{UUID: "GPU-a", Memory: 3000, Cores: 50}}})
	if got["volcano.sh/vgpu-ids-new"] != ";GPU-a,NVIDIA,3000,50:" || got["volcano.sh/vgpu-node"] != "n0" || got["volcano.sh/bind-phase"] != "allocating" || got["volcano.sh/vgpu-time"] != "1763337600" {
		t.Error("annotations:", got)
	}
}
