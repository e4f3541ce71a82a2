package l2

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var draDriverSilentCheck = check.Check{
	Cause: "dra-driver-silent", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 33,
	Title:   "The device driver offers no devices",
	Meaning: "The pod claims devices of a class, and no driver has published any that belong to it: there are no ResourceSlices of the driver, or not all of a pool. GPUs may well be in the machines.",
	Remedy:  "Look at the pods of the DRA driver on the nodes, and at their logs.",
	Not:     "All devices are in use, or the selector is wrong.",
	Find:    draDriverSilent,
}

func draDriverSilent(c *check.Case) []check.Finding {
	if !c.Waits() || !c.Sees("resourceslices.resource.k8s.io", "") || !c.Sees("deviceclasses.resource.k8s.io", "") {
		return nil
	}
	asks := place.OpenAsks(c.Facts, place.ClaimsOf(c.Facts, c.Pod))
	if len(asks) == 0 {
		return nil
	}
	d := place.OffersOf(c.Facts)
	said := make(map[string]bool)
	var out []check.Finding
	for i := range asks {
		class := place.Named(c.DeviceClasses, "", asks[i].Class)
		if class == nil || said[class.Name] {
			continue
		}
		if any := d.Alternatives(asks, &asks[i]); any != nil && any.Nearest < place.Unoffered && len(d.OfClass(class.Name)) == 0 {
			continue // another alternative will do
		}
		said[class.Name] = true
		if f := silent(c, d, class); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// silent words a class of which no driver offers a device, or of which some nodes do not though their like do.
func silent(c *check.Case, d *place.Devices, class *resourcev1.DeviceClass) *check.Finding {
	driver := driverOf(class)
	var offers []*place.Device
	for _, v := range d.All {
		if d.InClass(v, class.Name) {
			offers = append(offers, v)
		}
	}
	evidence := []facts.Evidence{{Object: facts.RefTo(class).In(), Field: "spec.selectors", Value: selectorsText(class.Spec.Selectors)}}
	evidence = append(evidence, driverPods(c, driver)...)
	incomplete := slices.DeleteFunc(slices.Clone(d.Incomplete), func(pool string) bool { return driver != "" && !strings.HasPrefix(pool, driver+"/") })
	switch {
	case len(offers) > 0:
		return silentNodes(c, class, offers, evidence)
	case len(incomplete) > 0:
		return &check.Finding{Evidence: evidence, Message: fmt.Sprintf("no device of class %s can be had: of pool %s not all ResourceSlices are published", class.Name, wording.Few(incomplete))}
	case driver != "" && nearDriver(c, driver) != "":
		return renamedDriver(c, class, driver, nearDriver(c, driver), evidence)
	case driver != "":
		return &check.Finding{Evidence: evidence, Message: fmt.Sprintf("no device of class %s is offered: driver %s has published no ResourceSlice with one", class.Name, driver)}
	}
	return &check.Finding{Evidence: evidence, Message: fmt.Sprintf("no device of class %s is offered by any driver", class.Name)}
}

// nearDriver is a driver that has published devices and whose name is nearly the one given; "" for none.
func nearDriver(c *check.Case, driver string) string {
	near := ""
	for _, s := range c.ResourceSlices {
		switch has := s.Spec.Driver; {
		case has == driver:
			return ""
		case place.Misspelt(driver, has) && (near == "" || has < near):
			near = has
		}
	}
	return near
}

// renamedDriver is about a class that asks for the devices of a driver that is called a little otherwise.
func renamedDriver(c *check.Case, class *resourcev1.DeviceClass, driver, near string, evidence []facts.Evidence) *check.Finding {
	f := &check.Finding{
		Evidence: evidence,
		Message:  fmt.Sprintf("no device of class %s is offered: the class asks for driver %s, which has published no ResourceSlice, and %s has", class.Name, driver, near),
	}
	after := class.DeepCopy()
	var ops []edit.Op
	for i, s := range after.Spec.Selectors {
		if s.CEL == nil || driverIs.FindStringSubmatch(s.CEL.Expression) == nil {
			continue
		}
		expression := driverIs.ReplaceAllStringFunc(s.CEL.Expression, func(found string) string { return strings.Replace(found, driver, near, 1) })
		after.Spec.Selectors[i].CEL = &resourcev1.CELDeviceSelector{Expression: expression}
		ops = append(ops, edit.Op{Op: "replace", Path: edit.Pointer("spec", "selectors", fmt.Sprint(i), "cel", "expression"), Value: expression})
	}
	if len(ops) > 0 {
		f.Edits = []edit.Edit{{Side: edit.Cluster, Cost: edit.CostWord, Text: fmt.Sprintf("have device class %s ask for driver %s in place of %s", class.Name, near, driver), Set: []facts.Object{after}, Command: edit.PatchLine(class, "json", ops)}}
	}
	return f
}

// silentNodes are those that have GPUs, as their labels say, and for which the driver offers nothing, where it does
// for others. The probe has it offer there what it offers elsewhere.
func silentNodes(c *check.Case, class *resourcev1.DeviceClass, offers []*place.Device, evidence []facts.Evidence) *check.Finding {
	var like *resourcev1.ResourceSlice
	speaks := make(map[string]bool)
	for _, v := range offers {
		if node := ptr.Deref(v.Slice.Spec.NodeName, ""); node != "" {
			speaks[node], like = true, v.Slice
		}
	}
	f := c.Fit
	if like == nil || f == nil {
		return nil
	}
	probe := &edit.Edit{Side: edit.Cluster, Text: "have the driver publish the devices of more nodes"}
	var mute []string
	for i := range f.Nodes {
		n := f.Nodes[i].Node
		if speaks[n.Name] || n.Labels["nvidia.com/gpu.present"] != "true" || len(f.Nodes[i].Removed) > 0 {
			continue
		}
		mute = append(mute, n.Name)
		probe.Set = append(probe.Set, sliceFor(like, n))
	}
	if len(mute) == 0 {
		return nil
	}
	return &check.Finding{Fit: true, Probe: probe, Evidence: evidence,
		Message: fmt.Sprintf("%s with GPUs (%s) offer no device of class %s, where others do: the driver has published nothing for them", wording.NodesInWords(len(mute)), wording.Few(mute), class.Name)}
}

// sliceFor is a slice as the driver would publish it for the node.
func sliceFor(like *resourcev1.ResourceSlice, n *corev1.Node) *resourcev1.ResourceSlice {
	s := like.DeepCopy()
	s.Name, s.UID = n.Name+"-"+s.Spec.Driver, n.UID+"-slice"
	s.Spec.NodeName, s.Spec.Pool = &n.Name, resourcev1.ResourcePool{Name: n.Name, Generation: 1, ResourceSliceCount: 1}
	return s
}

var driverIs = regexp.MustCompile(`device\.driver\s*==\s*["']([^"']+)["']`)

// driverOf is the driver that the class names, "" where it names none.
func driverOf(class *resourcev1.DeviceClass) string {
	for _, s := range class.Spec.Selectors {
		if s.CEL == nil {
			continue
		}
		if m := driverIs.FindStringSubmatch(s.CEL.Expression); m != nil {
			return m[1]
		}
	}
	return ""
}

func selectorsText(all []resourcev1.DeviceSelector) string {
	var out []string
	for _, s := range all {
		if s.CEL != nil {
			out = append(out, s.CEL.Expression)
		}
	}
	return strings.Join(out, "; ")
}

// driverPods is how the DaemonSets that look like DRA drivers do.
func driverPods(c *check.Case, driver string) []facts.Evidence {
	var out []facts.Evidence
	for _, ds := range c.DaemonSets {
		if strings.Contains(ds.Name, "dra-") || strings.Contains(ds.Name, "-dra") || driver != "" && strings.Contains(ds.Name, driver) {
			out = append(out, facts.Evidence{Object: facts.RefTo(ds).In(), Field: "status.numberReady", Value: fmt.Sprintf("%d of %d", ds.Status.NumberReady, ds.Status.DesiredNumberScheduled)})
		}
	}
	return out
}
