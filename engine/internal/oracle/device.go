package oracle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine"
)

// choices is every way to give the pod GPUs of the node, alike devices being one; nil where it is the
// kubelet that will choose, unseen: the node names no devices, or somebody has some and does not say which.
func (w *world) choices(p engine.Pod, n engine.Node) (all [][]string) {
	if len(n.Devices) == 0 || w.silent(n) > 0 {
		return [][]string{nil}
	}
	seen := map[string]bool{}
	for _, devices := range subsets(w.usable(n), int(amount(p.Requests, w.gpu))) {
		var ids, kinds []string
		for _, d := range devices {
			ids, kinds = append(ids, d.ID), append(kinds, fmt.Sprint(d.Model, d.Clique, d.NUMA))
		}
		if key := strings.Join(kinds, ";"); !seen[key] {
			seen[key], all = true, append(all, ids)
		}
	}
	return all
}

// barDevices says what is wrong with the choice of devices.
func (w *world) barDevices(p engine.Pod, n engine.Node, ids []string, model string) error {
	count := int(amount(p.Requests, w.gpu))
	if count == 0 || len(n.Devices) == 0 || w.silent(n) > 0 {
		if len(ids) > 0 || !w.sure(p, n, count, model) {
			return errors.New("devices are not known")
		}
		return nil
	}
	got := slices.DeleteFunc(w.usable(n), func(d engine.Device) bool { return !slices.Contains(ids, d.ID) })
	if len(got) != count || len(ids) != count || !suit(p, got, model) {
		return fmt.Errorf("devices %v of %s are not free or not what it asks for", ids, n.Name)
	}
	return nil
}

// sure says whether a pod gets suitable devices whichever the kubelet gives to it, and gave to those who do
// not say. Devices that must lie together are never sure; one lies together with itself.
func (w *world) sure(p engine.Pod, n engine.Node, count int, model string) bool {
	fussy := count > 1 && (p.GPU.Clique == engine.Require || p.GPU.NUMA == engine.Require)
	switch {
	case count == 0:
		return true
	case len(n.Devices) == 0:
		return len(p.GPU.Models) == 0 && !fussy
	}
	return !fussy && sets(p, w.usable(n), 1, model)-w.silent(n) >= count
}

// sets is the most suitable sets of so many devices that can be had at once.
func sets(p engine.Pod, free []engine.Device, count int, model string) (most int) {
	for _, one := range subsets(free, count) {
		if suit(p, one, model) {
			rest := slices.DeleteFunc(slices.Clone(free), func(d engine.Device) bool { return slices.Contains(one, d) })
			most = max(most, 1+sets(p, rest, count, model))
		}
	}
	return most
}

// suit says whether the devices are what the pod asks for.
func suit(p engine.Pod, devices []engine.Device, model string) bool {
	return !slices.ContainsFunc(devices, func(d engine.Device) bool {
		return len(p.GPU.Models) > 0 && (d.Model != model || !slices.Contains(p.GPU.Models, model)) ||
			p.GPU.Clique == engine.Require && len(devices) > 1 && (d.Clique == "" || d.Clique != devices[0].Clique) ||
			p.GPU.NUMA == engine.Require && d.NUMA != devices[0].NUMA
	})
}

// models is the GPU models that the gang may get, best first: the one that a member runs on, else those that
// all members who ask for any have in common; "" where none asks.
func (w *world) models(g engine.Gang) []string {
	var models []string
	asked := false
	for _, p := range w.members(g, engine.Group{}) {
		if len(p.GPU.Models) == 0 || amount(p.Requests, w.gpu) == 0 {
			continue
		}
		if on := w.runsOn(p); slices.Contains(p.GPU.Models, on) {
			return []string{on}
		}
		if !asked {
			asked, models = true, slices.Clone(p.GPU.Models)
		}
		models = slices.DeleteFunc(models, func(m string) bool { return !slices.Contains(p.GPU.Models, m) })
	}
	if !asked {
		return []string{""}
	}
	return models
}

// runsOn is the model of the GPUs that the pod has; "" where it has none, or that is not known.
func (w *world) runsOn(p engine.Pod) (model string) {
	has := w.at[p.Key].devices
	for _, d := range w.node[w.at[p.Key].node].Devices {
		if len(has) > 0 && !slices.Contains(has, d.ID) {
			continue
		}
		if model != "" && model != d.Model {
			return ""
		}
		model = d.Model
	}
	return model
}

// usable is the node's devices that are healthy and that nobody is known to have.
func (w *world) usable(n engine.Node) []engine.Device {
	return slices.DeleteFunc(slices.Clone(n.Devices), func(d engine.Device) bool {
		return d.Unhealthy || slices.ContainsFunc(w.Pods, func(q engine.Pod) bool {
			return w.at[q.Key].node == n.Name && slices.Contains(w.at[q.Key].devices, d.ID)
		})
	})
}

// silent is how many GPUs of the node are given away without it being known which.
func (w *world) silent(n engine.Node) (total int) {
	for _, q := range w.Pods {
		known := slices.DeleteFunc(slices.Clone(n.Devices), func(d engine.Device) bool { return !slices.Contains(w.at[q.Key].devices, d.ID) })
		if w.at[q.Key].node == n.Name {
			total += max(0, int(amount(q.Requests, w.gpu))-len(known))
		}
	}
	return total
}

// subsets is every way to take so many of the devices.
func subsets(of []engine.Device, count int) (all [][]engine.Device) {
	if count == 0 {
		return [][]engine.Device{nil}
	}
	for i := range of {
		for _, rest := range subsets(of[i+1:], count-1) {
			all = append(all, append([]engine.Device{of[i]}, rest...))
		}
	}
	return all
}
