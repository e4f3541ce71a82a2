package convert

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestWhatARequestConsumes(t *testing.T) {
	q := func(s string) *resource.Quantity { return new(resource.MustParse(s)) }
	steps := &resourcev1.CapacityRequestPolicy{Default: q("1G"), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: q("1G"), Max: q("8G"), Step: q("500M")}}
	values := &resourcev1.CapacityRequestPolicy{Default: q("1"), ValidValues: []resource.Quantity{*q("1"), *q("4")}}
	for _, c := range []struct {
		name, value string
		policy      *resourcev1.CapacityRequestPolicy
		asked       string // "": nothing
		want        string // "": the device has not got it
	}{
		{"all of it", "10G", nil, "", "10G"},
		{"as much as is asked for", "10G", nil, "3", "3"},
		{"more than there is", "10G", nil, "11G", ""},
		{"the default", "10G", steps, "", "1G"},
		{"the least", "10G", steps, "1", "1G"},
		{"the next step", "10G", steps, "1100M", "1500M"},
		{"a step", "10G", steps, "2G", "2G"},
		{"more than may be had", "10G", steps, "9G", ""},
		{"the next value", "10", values, "2", "4"},
		{"no such value", "10", values, "5", ""},
		{"a value that is more than there is", "3", values, "2", ""},
	} {
		d := &OfferedDevice{Device: &resourcev1.Device{Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"rate": {Value: *q(c.value), RequestPolicy: c.policy}}}}
		wanted := map[resourcev1.QualifiedName]resource.Quantity{}
		if c.asked != "" {
			wanted["rate"] = *q(c.asked)
		}
		got := d.consumes(wanted)
		of := got.of["rate"]
		if got.broken || got.fits != (c.want != "") || got.fits && of.Cmp(*q(c.want)) != 0 {
			t.Errorf("%s: %s, %+v", c.name, of.String(), got)
		}
	}
	d := &OfferedDevice{Device: &resourcev1.Device{}}
	if d.consumes(map[resourcev1.QualifiedName]resource.Quantity{"rate": *q("1")}).fits {
		t.Error("a device has a capacity that it does not name")
	}
}
