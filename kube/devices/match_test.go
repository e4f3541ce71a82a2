package devices

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestMatcher(t *testing.T) {
	text := func(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }
	version := "9.0.0"
	d := &resourcev1.Device{Name: "gpu-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"type": text("gpu"), "productName": text("NVIDIA H100 80GB HBM3"), "cudaComputeCapability": {VersionValue: &version},
	}, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}}
	m := NewMatcher()
	for _, c := range []struct {
		expression string
		want, err  bool
	}{
		{`device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'`, true, false},
		{`device.driver == 'other'`, false, false},
		{`device.attributes["gpu.nvidia.com"].productName == "NVIDIA H200"`, false, false},
		{`device.attributes["gpu.nvidia.com"].productName.lowerAscii().matches('^.*h100.*$')`, true, false},
		{`device.attributes["gpu.nvidia.com"].cudaComputeCapability.isGreaterThan(semver("8.0.0"))`, true, false},
		{`device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0`, true, false},
		{`device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("141Gi")) >= 0`, false, false},
		{`device.attributes["gpu.nvidia.com"].unheardOf == "x"`, false, true},
		{`device.attributes[`, false, true},
	} {
		for range 2 { // the second time from memory
			if got, err := m(c.expression, "gpu.nvidia.com", d); got != c.want || (err != nil) != c.err {
				t.Errorf("%s: %v %v", c.expression, got, err)
			}
		}
	}
}
