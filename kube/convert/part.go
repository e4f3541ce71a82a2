package convert

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// KAI's keys for a part of a GPU.
const (
	kaiFraction = "gpu-fraction"
	kaiMemory   = "gpu-memory"
	kaiDevices  = "gpu-fraction-num-devices"
	// kaiContainer names the container that gets the part, an init container or another; else it is the first
	// (pkg/binder/common/gpu_access.go, GetFractionContainerRef, of KAI v0.13).
	kaiContainer = "gpu-fraction-container-name"
	// kaiGroup names the PodGroup; kube/dialect/kai reads it.
	kaiGroup = "pod-group-name"
)

// Who gives parts of GPUs on a node: an agent that honours v1alpha1.KeyWantedGPUs, or an edition of HAMi's device plugin, by its name. It
// stands among the labels of nodes and in the selectors of pods under a key that no label can have.
const (
	// KeySharing is that key.
	KeySharing    = "gpu parts from"
	sharedByAgent = "berth"
	sharedByHAMi  = "hami"
)

// partRequest is what a pod says about a part of GPUs, in one of the dialects.
type partRequest struct {
	*engine.Part
	by      string // who has to give it
	problem string // why it cannot be read; "": it can, or there is none
}

// partOf reads the pod's request for a part of GPUs; its Part is nil where there is none, or none that can be read.
func partOf(p *corev1.Pod) partRequest {
	own := keyedPart(p, v1alpha1.KeyGPUFraction, v1alpha1.KeyGPUMemory, "")
	kai := keyedPart(p, kaiFraction, kaiMemory, kaiDevices)
	if name := asked(&p.ObjectMeta, kaiContainer); name != "" && kai.Part != nil && !hasContainer(p, name) {
		kai = partRequest{problem: fmt.Sprintf("%s is %s: want the name of one of its containers", kaiContainer, quoted(name))}
	}
	all := []partRequest{own, kai}
	for _, e := range hami.Editions() {
		all = append(all, editionPart(p, &e))
	}
	var said []partRequest
	for _, r := range all {
		if r.problem != "" {
			return r
		}
		if r.Part != nil {
			said = append(said, r)
		}
	}
	switch {
	case len(said) == 0:
		return partRequest{}
	case len(said) > 1:
		return partRequest{problem: "it asks for parts of GPUs in more than one way: want the keys of Berth, those of KAI, the resources of HAMi, or those of Volcano"}
	case said[0].by == sharedByAgent && gpusOf(p) > 0:
		return partRequest{problem: fmt.Sprintf("it asks for %d of %s beside a part of a GPU: want one of them", gpusOf(p), wholeGPU)}
	}
	return said[0]
}

func hasContainer(p *corev1.Pod, name string) bool {
	its := func(c corev1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(p.Spec.InitContainers, its) || slices.ContainsFunc(p.Spec.Containers, its)
}

// PartOf is the part of GPUs that the pod asks for; nil: none, or none that can be read.
func PartOf(p *corev1.Pod) *engine.Part { return partOf(p).Part }

const wholeGPU = "nvidia.com/gpu"

func gpusOf(p *corev1.Pod) int64 { return requests(p).Get(wholeGPU) }

// keyedPart reads a fraction of a GPU or MiB of its memory, on as many GPUs as the third key says, if there is one.
func keyedPart(p *corev1.Pod, fraction, memory, devices string) partRequest {
	share, mib, count := asked(&p.ObjectMeta, fraction), asked(&p.ObjectMeta, memory), ""
	if devices != "" {
		count = asked(&p.ObjectMeta, devices)
	}
	wrong := func(key, value, want string) partRequest {
		return partRequest{problem: fmt.Sprintf("%s is %s: want %s", key, quoted(value), want)}
	}
	out := partRequest{Part: &engine.Part{Cards: 1}, by: sharedByAgent}
	switch {
	case share == "" && mib == "" && count == "":
		return partRequest{}
	case share == "" && mib == "":
		return partRequest{problem: fmt.Sprintf("%s without %s or %s: want one of them", devices, fraction, memory)}
	case share != "" && mib != "":
		return partRequest{problem: fmt.Sprintf("%s and %s: want one of them", fraction, memory)}
	case share != "":
		f, err := strconv.ParseFloat(share, 64)
		thousandths := math.Round(f * 1000)
		if err != nil || !(f > 0 && f <= 1) || thousandths < 1 || math.Abs(thousandths-f*1000) > 1e-6 {
			return wrong(fraction, share, "a number above 0, up to 1, with at most three decimals, such as 0.5")
		}
		// A fraction is of the compute too, so that fractions of a card add up to one.
		out.Share, out.Compute = int64(thousandths), int64(thousandths)
	default:
		n, err := strconv.ParseInt(mib, 10, 64)
		if err != nil || n < 1 || n > engine.MaxCardMemory {
			return wrong(memory, mib, "a number of MiB above 0, such as 4096")
		}
		out.Memory = n
	}
	if count != "" {
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || n > MaxNodeGPUs {
			return wrong(devices, count, fmt.Sprintf("a number from 1 to %d", MaxNodeGPUs))
		}
		out.Cards = n
	}
	return out
}

// editionPart reads the resources of an edition of HAMi's plugin, which gives each container its own. Where several ask, the engine is told
// of one part for all of their GPUs, as large as the largest: what it has no word for is GPUs that differ. That is told (unevenParts).
func editionPart(p *corev1.Pod, e *hami.Edition) partRequest {
	asking := askingParts(p, e)
	var out *engine.Part
	for _, c := range asking {
		one, problem := containerPart(c, e)
		switch {
		case problem != "":
			return partRequest{problem: problem}
		case out == nil:
			out = one
		case (out.Memory > 0) != (one.Memory > 0):
			return partRequest{problem: fmt.Sprintf("%d containers ask for parts of GPUs, by MiB and by share: want one of them for all", len(asking))}
		default:
			out.Cards, out.Memory = out.Cards+one.Cards, max(out.Memory, one.Memory)
			out.Share, out.Compute = max(out.Share, one.Share), max(out.Compute, one.Compute)
		}
	}
	if out == nil {
		return partRequest{}
	}
	if out.Cards > MaxNodeGPUs {
		return partRequest{problem: fmt.Sprintf("its containers ask for parts of %d GPUs: want 1 to %d", out.Cards, MaxNodeGPUs)}
	}
	out.Spread = gpuPolicy(p) == hami.Spread
	return partRequest{Part: out, by: e.Name}
}

// askingParts are the containers that ask the edition's plugin for GPUs; nil unless one of them asks for a part.
func askingParts(p *corev1.Pod, e *hami.Edition) (asking []*corev1.Container) {
	parts := false
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if c := &list[i]; asksPart(c, e) || takes(c, e.Count) > 0 {
				asking, parts = append(asking, c), parts || asksPart(c, e)
			}
		}
	}
	if !parts {
		return nil
	}
	return asking
}

// unevenParts says that several containers of the pod ask for parts of GPUs.
func unevenParts(p *corev1.Pod) []string {
	for _, e := range hami.Editions() {
		if n := len(askingParts(p, &e)); n > 1 {
			return []string{fmt.Sprintf("parts of GPUs for %d containers apart (each has GPUs of its own, and every part counts as the largest)", n)}
		}
	}
	return nil
}

// containerPart is what the container asks of each of its GPUs, and of how many, or why that cannot be read.
func containerPart(c *corev1.Container, e *hami.Edition) (*engine.Part, string) {
	mib, percent, cores := takes(c, e.Memory), takes(c, e.Percentage), takes(c, e.Cores)
	wrong := func(name string, value int64, want string) (*engine.Part, string) {
		return nil, fmt.Sprintf("%s of container %s is %d: want %s", name, c.Name, value, want)
	}
	switch cards := max(1, takes(c, e.Count)); {
	case mib < 0 || mib > math.MaxInt32:
		return wrong(e.Memory, mib, "a number of MiB")
	case percent < 0 || percent > 100:
		return wrong(e.Percentage, percent, "0 to 100")
	case cores < 0 || cores > 100:
		return wrong(e.Cores, cores, "0 to 100")
	case cards > MaxNodeGPUs:
		return wrong(e.Count, cards, fmt.Sprintf("1 to %d", MaxNodeGPUs))
	default:
		out := engine.Part{Cards: int(cards), Memory: mib, Compute: cores * 10}
		if mib == 0 || e.PercentageFirst && percent > 0 {
			out.Memory = 0
			if out.Share = percent * 10; percent == 0 { // all of it, where nothing is said
				out.Share = 1000
			}
		}
		return &out, ""
	}
}

// gpuPolicy is how the pod wants its GPUs to be chosen among those of a node, "" where it does not say, or asks for something else.
func gpuPolicy(p *corev1.Pod) string {
	if v := strings.TrimSpace(p.Annotations[hami.KeyGPUPolicy]); v == hami.Binpack || v == hami.Spread {
		return v
	}
	return ""
}

// give has the spec ask for the part in place of the resources that stand for it.
func (r partRequest) give(s *engine.Spec) {
	if r.Part == nil {
		return
	}
	s.Part = r.Part
	for _, e := range hami.Editions() {
		if e.Name == r.by {
			s.Requests = slices.DeleteFunc(slices.Clone(s.Requests), func(a engine.Amount) bool { return standsForPart(&e, a.Resource) })
		}
	}
	selector := maps.Clone(s.Selector)
	if selector == nil {
		selector = make(map[string]string)
	}
	selector[KeySharing] = r.by
	s.Selector = selector
}

// standsForPart says whether the part that a pod asks for says all that its request for the resource does. Where nodes offer amounts of
// memory and compute in sum, the kubelet counts them too, and so do queues.
func standsForPart(e *hami.Edition, resource string) bool {
	if e.OffersAmounts {
		return resource == e.Percentage
	}
	return resource == e.Count || resource == e.Memory || resource == e.Percentage || resource == e.Cores
}

// named has a pod that may have some GPUs only go where whoever gives GPUs is told which: a kubelet gives whichever it likes.
func named(s *engine.Spec) {
	if len(s.GPU.Only)+len(s.GPU.Except) == 0 || s.Part == nil && s.Requests.Get(wholeGPU) == 0 || s.Selector[KeySharing] != "" {
		return
	}
	s.Selector = labelled(s.Selector, KeySharing, sharedByHAMi)
}

// part notes a request for a part of GPUs that cannot be read.
func (t *terms) part(p *corev1.Pod) {
	if problem := partOf(p).problem; problem != "" && len(t.problems) < MaxProblems {
		t.problems = append(t.problems, fmt.Sprintf("pod %s: %s", p.Name, problem))
	}
}

// editionOn is the edition of HAMi's plugin that has registered GPUs on the node, and those; nil: none has. GPUs that MIG or MPS divides
// are given whole.
func editionOn(n *corev1.Node) (*hami.Edition, []engine.Device) {
	for _, e := range hami.Editions() {
		if list := registered(n, &e); list != nil {
			return &e, list
		}
	}
	return nil, nil
}

func registered(n *corev1.Node, e *hami.Edition) []engine.Device {
	text := n.Annotations[e.Register]
	if text == "" {
		return nil
	}
	list, err := e.Devices(text)
	if err != nil || len(list) > MaxNodeGPUs {
		return nil
	}
	var out []engine.Device
	for i := range list {
		d := &list[i]
		model, _ := shortModel(d.Type)
		g := engine.Device{ID: deviceID(n.Name, i, d.ID), Model: model, NUMA: max(-1, min(d.NUMA, maxNUMA)), Unhealthy: !d.Health, Memory: int64(d.Memory)}
		if g.Memory > 0 && (d.Mode == hami.Core || d.Mode == "") {
			g.Parts = int(d.Count)
		}
		out = append(out, g)
	}
	return out
}

// share enters the GPUs that an edition of HAMi's plugin gives, or those of which an agent gives parts, and who does. HAMi's own
// advertises each GPU as often as it may be shared, under the name of whole ones; the engine counts GPUs.
func share(n *corev1.Node, out *engine.Node, gpu string) {
	if e, list := editionOn(n); e != nil && (out.Allocatable.Get(e.Count) > 0 || e.Count == wholeGPU && out.Allocatable.Get(gpu) > 0) {
		out.Devices = list
		usable := int64(0)
		for _, d := range list {
			if !d.Unhealthy {
				usable++
			}
		}
		if !e.OffersAmounts {
			out.Allocatable = slices.Clone(out.Allocatable)
			for i := range out.Allocatable {
				if a := &out.Allocatable[i]; a.Resource == gpu {
					a.Value = min(a.Value, usable)
				}
			}
		}
		out.Labels = labelled(out.Labels, KeySharing, e.Name)
		return
	}
	if slices.ContainsFunc(out.Devices, func(d engine.Device) bool { return d.Parts > 0 }) {
		out.Labels = labelled(out.Labels, KeySharing, sharedByAgent)
	}
}

func labelled(labels map[string]string, key, value string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = make(map[string]string)
	}
	labels[key] = value
	return labels
}

// Grants are what HAMi's device plugin is told to give to the containers of a pod that gets these GPUs of the node, which are as
// engine.Placement names them. Nil: the node's plugin is no edition of HAMi's, or the pod asks it for nothing.
func Grants(p *corev1.Pod, n *corev1.Node, devices []string) [][]hami.Grant {
	e, cards := editionOn(n)
	if e == nil || len(devices) == 0 {
		return nil
	}
	part := partOf(p)
	lists := [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers}
	if e.Mains {
		lists = lists[1:]
	}
	var out [][]hami.Grant
	given := 0
	for _, list := range lists {
		for i := range list {
			count := int(min(takes(&list[i], e.Count), MaxNodeGPUs+1))
			if asksPart(&list[i], e) {
				count = max(1, count)
			}
			var own *engine.Part // of its own, in a pod that asks for a part at all
			if count > 0 && part.Part != nil {
				own, _ = containerPart(&list[i], e)
			}
			var grants []hami.Grant
			for range count {
				if given == len(devices) {
					return nil // its containers ask for more than it was given
				}
				at := slices.IndexFunc(cards, func(d engine.Device) bool { return d.ID == devices[given] })
				if at < 0 {
					return nil
				}
				g := hami.Grant{UUID: cards[at].ID[len(n.Name)+1:], Memory: cards[at].Memory}
				if own != nil {
					g.Memory, g.Cores = own.Of(cards[at].Memory), own.Compute/10
				}
				grants = append(grants, g)
				given++
			}
			out = append(out, grants)
		}
	}
	if given != len(devices) {
		return nil
	}
	return out
}

// EditionOn is the edition of HAMi's device plugin that gives the GPUs of the node; nil: none does.
func EditionOn(n *corev1.Node) *hami.Edition {
	e, _ := editionOn(n)
	return e
}

// AsksHAMi says whether the pod asks for something that HAMi's scheduler alone gives: a part of GPUs, or GPUs by its keys.
func AsksHAMi(p *corev1.Pod) bool {
	own := hami.Own()
	keyed := slices.ContainsFunc(hamiKeys(), func(key string) bool { return p.Annotations[key] != "" })
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if asksPart(&list[i], &own) || keyed && takes(&list[i], wholeGPU) > 0 {
				return true
			}
		}
	}
	return false
}

// GivenByHAMi says whether the device plugin that HAMi itself ships gives the GPUs of the node.
func GivenByHAMi(n *corev1.Node) bool {
	e := EditionOn(n)
	return e != nil && e.Name == hami.Own().Name
}

// asksPart says whether the container asks the edition's plugin for a part of a GPU.
func asksPart(c *corev1.Container, e *hami.Edition) bool {
	return takes(c, e.Memory) != 0 || takes(c, e.Percentage) != 0 || takes(c, e.Cores) != 0 || e.CountAsks && takes(c, e.Count) > 0
}

// takes is what the container asks for of a device's resource, whose request and limit are the same.
func takes(c *corev1.Container, name string) int64 {
	q, ok := c.Resources.Requests[corev1.ResourceName(name)]
	if !ok {
		q = c.Resources.Limits[corev1.ResourceName(name)]
	}
	return q.Value()
}
