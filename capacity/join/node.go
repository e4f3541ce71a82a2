package join

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/kube/dialect"
)

// place is how far a GPU has come, and what keeps it there.
type place struct {
	stage capacity.Stage
	cause string
	since time.Time
	said  Said
	pods  []string // that hold it
}

// unit are the GPUs of a machine: none where it has none.
func (w *world) unit(name string, m *machine, r *reservation) []unit {
	n, price := m.gpus, (*v1alpha1.Price)(nil)
	a := capacity.Account{Pool: m.pool, Zone: m.zone}
	if m.berth != nil {
		price = m.berth.Spec.PriceOf(m.capacity)
	}
	if r != nil {
		n, price, a.Reservation = int(r.spec.GPUs.Count), r.spec.Price, r.Name // what is paid for, whatever the node shows
		if a.Zone == "" {
			a.Zone = r.spec.Zone
		}
	}
	if n == 0 {
		return nil
	}
	out := unit{gpus: gpus(name, n, a, time.Time{}, price)}
	if m.node != nil {
		out.node, out.pods = m.node.Name, make([][]string, n)
	}
	for i, p := range w.places(m, n) {
		g := &out.gpus[i]
		g.Stage, g.Cause, g.Owner, g.Since = p.stage, p.cause, ownerOf(p.cause), p.since
		if out.said == (Said{}) {
			out.said = p.said
		}
		if m.node != nil {
			out.pods[i] = p.pods
		}
	}
	return []unit{out}
}

// places are where the n GPUs of a machine are.
func (w *world) places(m *machine, n int) []place {
	if m.node == nil {
		return slices.Repeat([]place{w.unregistered(m)}, n)
	}
	node, state := m.node, w.stack.States[m.node.Name]
	if !facts.NodeReady(node) || state == gpustack.NodeUnready {
		p := place{stage: capacity.Registered, cause: "node-not-ready", said: Said{Message: "node " + node.Name + " is not Ready"}}
		if c := facts.ConditionOf(node, corev1.NodeReady); c != nil {
			p.since = c.LastTransitionTime.Time
		}
		return slices.Repeat([]place{p}, n)
	}
	return w.onNode(node, state, n)
}

// unregistered is a machine that is no node.
func (w *world) unregistered(m *machine) place {
	p := place{stage: capacity.Launched, cause: "node-coming", since: m.since, said: Said{Message: fmt.Sprintf("machine %s is launched and has not become a node yet", m.name)}}
	late := w.facts.At.Sub(m.since) > registration
	if m.berth != nil && m.berth.Spec.Boot.Register != nil && m.berth.Spec.Boot.Register.Duration > registration {
		late = true // and its boot profile says that it will be
	}
	if l := m.asked; l != nil && l.Status.Phase == "" {
		return place{stage: capacity.Paid, cause: "node-coming", since: m.since, said: Said{Message: fmt.Sprintf("machine %s is asked of the provider for %s, which has not answered", l.Name, l.Spec.For)}}
	}
	if m.asked != nil && m.berth.Spec.Launch != nil && m.berth.Spec.Launch.ReadyWithin != nil {
		p.said.Message = fmt.Sprintf("machine %s is launched for %s and has not become a node yet", m.asked.Name, m.asked.Spec.For)
		late = w.facts.At.Sub(m.since) > m.berth.Spec.Launch.ReadyWithin.Duration
	}
	if m.pool != "" {
		p.said.Ask = "who keeps the machine image and start script of pool " + m.pool
	}
	if late {
		p.cause = "machine-never-registered"
		p.said.Message = fmt.Sprintf("machine %s was launched %s ago and has not become a node", m.name, rough(w.facts.At.Sub(m.since)))
		p.said.Fix = "look at the machine's console: its start script, its way to the API server, its role; then have it replaced"
	}
	if l := m.claim; l != nil && !dialect.IsTrue(l, "Launched") {
		p.stage, p.cause = capacity.Paid, "node-coming"
		p.said = Said{Message: fmt.Sprintf("NodeClaim %s waits for its machine", l.GetName())}
	}
	return p
}

// device is what is known of one GPU of a node that is Ready.
type device struct {
	id                          string
	advertised, well, held, use bool
	measured                    bool
	pods                        []string
}

func (w *world) onNode(n *corev1.Node, state gpustack.NodeState, count int) []place {
	devices := w.devicesOf(n, count)
	absent, sick, shut := w.absence(n, state), place{stage: capacity.Advertised, cause: "gpu-unhealthy"}, w.shut(n, state)
	bad, advertised := 0, 0
	for _, d := range devices {
		if d.advertised {
			advertised++
		}
		if d.advertised && !d.well {
			bad++
		}
	}
	if advertised > 0 && absent.cause == "device-not-advertised" {
		absent.said.Message = fmt.Sprintf("node %s is Ready and advertises %d of its %d GPUs", n.Name, advertised, count)
	}
	sick.said = Said{Message: fmt.Sprintf("node %s has found %d of its %d GPUs unhealthy", n.Name, bad, count)}
	out := make([]place, len(devices))
	for i, d := range devices {
		switch {
		case !d.advertised:
			out[i] = absent
		case !d.well:
			out[i] = sick
		case d.held && d.use:
			out[i] = place{stage: capacity.Busy}
		case d.held && d.measured:
			out[i] = place{stage: capacity.Allocated, cause: capacity.IdleAllocation}
		case d.held:
			out[i] = place{stage: capacity.Allocated, cause: capacity.NotMeasured}
		case shut.cause != "":
			out[i] = shut
		default:
			out[i] = place{stage: capacity.Schedulable, cause: capacity.Idle}
		}
		out[i].pods = d.pods
	}
	return out
}

// absence is why GPUs of the node are not offered.
func (w *world) absence(n *corev1.Node, state gpustack.NodeState) place {
	p := place{stage: capacity.Ready, cause: "device-not-advertised", said: Said{Message: "node " + n.Name + " is Ready and advertises none of its GPUs"}}
	if c := facts.ConditionOf(n, corev1.NodeReady); c != nil {
		p.since = c.LastTransitionTime.Time
	}
	switch fault := w.stack.Faults[n.Name]; {
	case state == gpustack.NodeRepartitions:
		p.cause = "mig-reconfiguring"
	case state == gpustack.NodeUpgrades:
		p.cause = "driver-upgrade"
	case fault == gpustack.FaultDriver:
		p.cause, p.said.Message = "driver-not-ready", "the GPU driver of node "+n.Name+" is not ready"
	case fault == gpustack.FaultPlugin:
		p.cause, p.said = "device-plugin-missing", w.noPlugin(n)
	case fault == gpustack.FaultSilent:
		p.cause, p.said.Message = "device-plugin-not-registered", "the device plugin of node "+n.Name+" runs, and the kubelet does not know it"
	case fault == gpustack.FaultKubelet:
		p.cause = "kubelet-restarting"
	case fault == gpustack.FaultOperator:
		p.cause = "gpu-operator-not-ready"
	case fault == gpustack.FaultUneven:
		p.cause = "mig-shape-mismatch"
	case n.Labels["nvidia.com/dra-kubelet-plugin"] == "true" && len(w.devices[n.Name]) == 0:
		p.cause, p.said.Message = "dra-driver-silent", "no driver offers the GPUs of node "+n.Name+" in a ResourceSlice"
	}
	return p
}

func (w *world) noPlugin(n *corev1.Node) Said {
	s := Said{Message: "no device plugin runs on node " + n.Name, Ask: "who keeps the GPU stack of the cluster"}
	if g := w.stack.Nodes[n.Name]; g != nil && g.Unready(gpustack.RolePlugin) != nil {
		p := g.Unready(gpustack.RolePlugin)
		return Said{Message: fmt.Sprintf("the device plugin of node %s is not ready: %s", n.Name, gpustack.Trouble(p)), Fix: "read the log of pod " + p.Namespace + "/" + p.Name}
	}
	a := w.stack.WhyAbsent(gpustack.RolePlugin, n)
	if a.Set != nil {
		s.Ask = "who keeps DaemonSet " + a.Set.Namespace + "/" + a.Set.Name
	}
	switch {
	case a.Taint != nil:
		s.Message += ": its DaemonSet does not tolerate the taint " + a.Taint.ToString()
		s.Fix = "add the toleration to the DaemonSet"
	case a.Key != "":
		s.Message += fmt.Sprintf(": its DaemonSet selects %s=%s", a.Key, a.Value)
		s.Fix = "give the node the label that the DaemonSet selects"
		s.Command = fmt.Sprintf("kubectl label node %s %s=%s --overwrite", n.Name, a.Key, a.Value)
	}
	return s
}

// shut is what keeps new work from the node; without a cause: nothing does.
func (w *world) shut(n *corev1.Node, state gpustack.NodeState) place {
	p := place{stage: capacity.Healthy}
	switch state {
	case gpustack.NodeLeaving:
		p.cause, p.said.Message = "node-being-removed", "node "+n.Name+" is being removed"
	case gpustack.NodeRepartitions:
		p.cause, p.said.Message = "mig-reconfiguring", "the MIG manager divides the GPUs of node "+n.Name+" anew"
	case gpustack.NodeUpgrades:
		p.cause, p.said.Message = "driver-upgrade", "the GPU driver of node "+n.Name+" is being upgraded"
	case gpustack.NodeQuarantined:
		p.cause, p.said.Message = "node-quarantined", "a health system has closed node "+n.Name
	case gpustack.NodeStartup:
		p.cause, p.said.Message = "startup-taint-stays", "node "+n.Name+" still has a startup taint"
	case gpustack.NodePressed:
		p.cause, p.said.Message = "node-pressure", "node "+n.Name+" is short of memory, disk or process IDs"
	case gpustack.NodeCordoned:
		p.cause = "node-cordoned"
		p.said = Said{Message: "node " + n.Name + " is cordoned, and nothing else says why", Fix: "ask who cordoned the node, and uncordon it", Command: "kubectl uncordon " + n.Name, Ask: "who cordoned node " + n.Name}
	default:
		if broken := v1alpha1.OfferedUnhealthy(n); len(broken) > 0 && len(w.devices[n.Name]) == 0 {
			p.cause = "gpu-unhealthy"
			p.said = Said{
				Message: fmt.Sprintf("DCGM shows a GPU of node %s to be broken (%s), and the device plugin still offers it: the kubelet could give it to any pod", n.Name, broken[0].Why),
				Fix:     "drain the node and have the GPU reset or replaced",
			}
			p.since, _ = time.Parse(time.RFC3339, broken[0].Since)
			return p
		}
		return place{}
	}
	for _, t := range n.Spec.Taints {
		if t.TimeAdded != nil && t.Effect != corev1.TaintEffectPreferNoSchedule && (p.since.IsZero() || t.TimeAdded.Time.Before(p.since)) {
			p.since = t.TimeAdded.Time
		}
	}
	return p
}

// devicesOf are the GPUs of a node, by identity where it tells: devices of slices, or the places that its annotation lists.
// Where a node only counts them, the first ones are those that it offers and that pods hold.
func (w *world) devicesOf(n *corev1.Node, count int) []device {
	out := make([]device, count)
	if slice := w.devices[n.Name]; len(slice) > 0 {
		for i := range min(count, len(slice)) {
			out[i] = device{id: slice[i].Name, advertised: true, well: slice[i].Usable || slice[i].Held, held: slice[i].Held, pods: w.claimed[slice[i].Name]}
		}
		w.measure(n, out)
		return out
	}
	units, offered, well := w.counted(n, count)
	var places []v1alpha1.GPUPlace
	if json.Unmarshal([]byte(n.Annotations[v1alpha1.KeyGPUTopology]), &places) != nil || len(places) > count {
		places = nil
	}
	marked := 0
	for i, p := range places {
		out[i].id = p.ID
		if p.Unhealthy && offered > 0 {
			marked++
		}
	}
	for i := range out {
		out[i].advertised = i < offered
		if marked == offered-well && marked > 0 && i < len(places) {
			out[i].well = out[i].advertised && !places[i].Unhealthy // it tells which
		} else {
			out[i].well = i < well
		}
	}
	w.unwell(n, out)
	w.measure(n, out)
	w.hold(n, out, units)
	return out
}

// unwell marks the GPUs that DCGM shows to be broken, by UUID or by index. Where the device plugin has withdrawn as many it has marked them.
func (w *world) unwell(n *corev1.Node, out []device) {
	for _, g := range v1alpha1.OfferedUnhealthy(n) {
		at := slices.IndexFunc(out, func(d device) bool { return d.id == g.UUID })
		if i, err := strconv.Atoi(g.GPU); at < 0 && err == nil && i >= 0 && i < len(out) {
			at = i
		}
		if at >= 0 {
			out[at].well = false
		}
	}
}

// counted is how many GPUs make up what the node offers of each resource, how many whole GPUs it offers, and how many of these it
// finds well.
func (w *world) counted(n *corev1.Node, count int) (units map[corev1.ResourceName]int64, offered, well int) {
	units = make(map[corev1.ResourceName]int64)
	for name, q := range n.Status.Capacity {
		if strings.HasPrefix(string(name), "nvidia.com/") && q.Value() > 0 {
			units[name] = q.Value()
		}
	}
	capacityOf := func(list corev1.ResourceList) int {
		q := list[gpustack.WholeGPU]
		whole := q.Value()
		if whole == 0 {
			whole = gpustack.Renamed(list)
		}
		if replicas := number(n.Labels["nvidia.com/gpu.replicas"]); replicas > 1 {
			whole = (whole + replicas - 1) / replicas
		}
		if _, single := gpustack.SingleProfile(n); single && whole > 0 || whole == 0 && gpustack.OffersMIG(n) {
			return count // parts: which GPU they are of is not told
		}
		return int(min(max(whole, 0), int64(count)))
	}
	offered, well = capacityOf(n.Status.Capacity), capacityOf(n.Status.Allocatable)
	if fault := w.stack.Faults[n.Name]; well == 0 && fault != gpustack.FaultNone && fault != gpustack.FaultUnhealthy {
		offered = 0 // the kubelet remembers how many a plugin offered that is gone
	}
	return units, offered, min(offered, well)
}

// measure notes what was measured, by UUID or, where the node or the sample has none, by index.
func (w *world) measure(n *corev1.Node, out []device) {
	for _, u := range w.uses[n.Name] {
		at := slices.IndexFunc(out, func(d device) bool { return u.UUID != "" && d.id == u.UUID })
		byUUID := u.UUID != "" && len(out) > 0 && strings.HasPrefix(out[0].id, "GPU-")
		if i := int(number(u.GPU)); at < 0 && !byUUID && u.GPU != "" && fmt.Sprint(i) == u.GPU && i < len(out) {
			at = i
		}
		if at >= 0 {
			out[at].measured, out[at].use = true, out[at].use || u.Busy
		}
	}
}

// givenTo are the ids of the GPUs that a pod was given, as its annotation says.
func givenTo(p *corev1.Pod) (ids []string) {
	var by map[string][]string
	if json.Unmarshal([]byte(p.Annotations[v1alpha1.KeyGPUs]), &by) != nil {
		return nil
	}
	for _, name := range sortedNames(by) {
		ids = append(ids, by[name]...)
	}
	return ids
}
