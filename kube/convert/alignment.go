package convert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// gpuOf is what the object asks of the GPUs behind its count. Berth's own keys count before HAMi's.
func gpuOf(o *metav1.ObjectMeta) engine.GPU {
	out := hamiGPU(o)
	if own := models(asked(o, v1alpha1.KeyGPUModel)); own != nil {
		out.Models = own
	}
	clique, numa, _ := alignment(asked(o, v1alpha1.KeyGPUAlignment))
	if out.Clique = clique; numa != "" {
		out.NUMA = numa
	}
	return out
}

// AnyModel says whether the pod asks for GPUs of one model, whichever it is. Such pods have that word as the only model, for whoever knows which
// models there are.
func AnyModel(p *corev1.Pod) bool {
	return strings.TrimSpace(asked(&p.ObjectMeta, v1alpha1.KeyGPUModel)) == v1alpha1.SameGPUModel
}

// ForeignGPU is what a pod of another scheduler asks of its GPUs, as that scheduler heeds it: HAMi's heeds its own keys.
func ForeignGPU(p *corev1.Pod) engine.GPU {
	if p.Spec.SchedulerName == hami.SchedulerName {
		return hamiGPU(&p.ObjectMeta)
	}
	return engine.GPU{}
}

// hamiGPU is what the object asks of its GPUs by HAMi's keys.
func hamiGPU(o *metav1.ObjectMeta) (out engine.GPU) {
	out.Models, _ = gpuTypes(o)
	if numaBound(o) {
		out.NUMA = engine.Require
	}
	out.NotModels, _ = typesOf(o.Annotations[hami.KeyNoUseType])
	for _, e := range hami.Editions() {
		if list, ok := uuids(o, e.UseUUID); ok {
			out.Only = list
		}
		if list, ok := uuids(o, e.NoUseUUID); ok {
			out.Except = list
		}
	}
	return out
}

// nobody is a name that no GPU has.
const nobody = ","

// uuids reads one of HAMi's lists of GPUs; ok is false where there is none, or one that is too long to be read.
func uuids(o *metav1.ObjectMeta, key string) (names []string, ok bool) {
	list := o.Annotations[key]
	names, said := hami.UUIDs(list)
	if !said || len(list) > MaxValueBytes {
		return nil, false
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		names = []string{nobody}
	}
	return names, true
}

// numaBound says whether the object wants its GPUs on one NUMA node as HAMi has it.
func numaBound(o *metav1.ObjectMeta) bool {
	yes, err := strconv.ParseBool(o.Annotations[hami.KeyNUMABind])
	return err == nil && yes
}

// gpuTypes reads HAMi's list of products that will do. HAMi takes each for a part of the product's name; ok is false unless all of
// them name a model, and then the key is among those that are not heeded.
func gpuTypes(o *metav1.ObjectMeta) (out []string, ok bool) {
	return typesOf(asked(o, hami.KeyUseType))
}

func typesOf(list string) (out []string, ok bool) {
	if strings.TrimSpace(list) == "" || len(list) > MaxValueBytes {
		return nil, false
	}
	for name := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(name) == "" {
			continue
		}
		short, _ := shortModel(strings.TrimSpace(name))
		if !chip.MatchString(short) && !strings.HasPrefix(short, "RTX") || len(out) == MaxGPUModels {
			return nil, false
		}
		if !slices.Contains(out, short) {
			out = append(out, short)
		}
	}
	return out, len(out) > 0
}

// alignment reads a value of v1alpha1.KeyGPUAlignment. One that cannot be read asks for nothing: its workload waits.
func alignment(value string) (nvlink, numa engine.Wish, ok bool) {
	if value == "" {
		return "", "", true
	}
	for part := range strings.SplitSeq(value, ",") {
		name, how, said := strings.Cut(part, "=")
		wish := engine.Require
		switch how = strings.TrimSpace(how); {
		case said && how == "preferred":
			wish = engine.Prefer
		case said && how != "required":
			return "", "", false
		}
		of := &nvlink
		switch strings.TrimSpace(name) {
		case "nvlink":
		case "numa":
			of = &numa
		default:
			return "", "", false
		}
		if *of != "" {
			return "", "", false
		}
		*of = wish
	}
	return nvlink, numa, true
}

// alignment notes a value that cannot be read.
func (t *terms) alignment(p *corev1.Pod) {
	if v := asked(&p.ObjectMeta, v1alpha1.KeyGPUAlignment); v != "" && len(t.problems) < MaxProblems {
		if _, _, ok := alignment(v); !ok {
			t.reject(author{"pod", &p.ObjectMeta}, v1alpha1.KeyGPUAlignment, v, "nvlink, numa, or both with a comma between, each with =preferred if it is a wish")
		}
	}
}

// held are the GPUs that the pod was given, or parts of, where whoever runs its node wrote that down: as many as it asks for. Nil:
// not known. Whoever may write a pod's status may write this (kube/policy/manifests/terms.yaml); what is wrong costs others
// the alignment of their GPUs on this node, and never a GPU: those are counted. Parts are where the pod's binding wants them, and so
// are all GPUs that HAMi's plugin gives; where another scheduler bound the pod for it, it says itself which.
func held(p *corev1.Pod, gpus int64) []string {
	if p.Spec.NodeName == "" || gpus <= 0 {
		return nil
	}
	names := given(p.Annotations[v1alpha1.KeyGPUs])
	named := partOf(p).Part != nil || slices.ContainsFunc(hami.Editions(), func(e hami.Edition) bool { return p.Annotations[e.Node] != "" })
	if wanted := p.Annotations[v1alpha1.KeyWantedGPUs]; names == nil && wanted != "" && len(wanted) <= MaxPodBytes && named {
		if json.Unmarshal([]byte(wanted), &names) != nil {
			return nil
		}
	}
	for _, e := range hami.Editions() {
		if names != nil {
			break
		}
		all, _ := hami.Grants(p.Annotations[e.Allocated])
		for _, g := range slices.Concat(all...) {
			names = append(names, g.UUID)
		}
	}
	var out []string
	for _, id := range names {
		if named {
			id, _, _ = strings.Cut(id, "::") // a part is numbered among those of its GPU
		}
		if id == "" || len(id) > MaxDeviceName {
			return nil
		}
		out = append(out, deviceID(p.Spec.NodeName, 0, id))
	}
	slices.Sort(out)
	out = slices.Compact(out) // a container may take over what an init container had
	if int64(len(out)) != gpus {
		return nil
	}
	return out
}

// given reads v1alpha1.KeyGPUs; nil: nothing that can be read.
func given(text string) (names []string) {
	var of map[string][]string
	if text == "" || len(text) > MaxPodBytes || json.Unmarshal([]byte(text), &of) != nil {
		return nil
	}
	//archtest:any-order what is collected is sorted
	for _, ids := range of {
		names = append(names, ids...)
	}
	return names
}

// deviceID is unique in the cluster, whatever nodes call their GPUs.
func deviceID(node string, i int, id string) string {
	if id == "" {
		return fmt.Sprintf("%s/gpu-%d", node, i)
	}
	return node + "/" + id
}

// TopologyProblem says what is wrong with what the node's annotation says of its GPUs, "" for nothing. They are then taken
// for GPUs of which nobody knows how they lie.
func TopologyProblem(n *corev1.Node) string {
	_, problem := gpuPlaces(n)
	return problem
}

func gpuPlaces(n *corev1.Node) (places []v1alpha1.GPUPlace, problem string) {
	text := n.Annotations[v1alpha1.KeyGPUTopology]
	switch {
	case text == "":
		return nil, ""
	case len(text) > MaxTopologyBytes:
		return nil, fmt.Sprintf("%s: more than %d bytes, the limit", v1alpha1.KeyGPUTopology, MaxTopologyBytes)
	case json.Unmarshal([]byte(text), &places) != nil:
		return nil, fmt.Sprintf(`%s is %s: want a JSON list, such as [{"numa":0,"nvlink":"a"},{"numa":1,"nvlink":"a"}]`, v1alpha1.KeyGPUTopology, quoted(text))
	case len(places) > MaxNodeGPUs:
		return nil, fmt.Sprintf("%s: more than %d GPUs, the limit", v1alpha1.KeyGPUTopology, MaxNodeGPUs)
	}
	if problem = wrongPlace(places); problem != "" {
		return nil, v1alpha1.KeyGPUTopology + ": " + problem
	}
	return places, ""
}

// maxParts is how many pods may share a GPU; Linux and CUDA allow fewer.
const maxParts = 1024

// maxNUMA is the highest number of a NUMA node; Linux has at most 1,024 of them.
const maxNUMA = 1023

func wrongPlace(places []v1alpha1.GPUPlace) string {
	seen := make(map[string]bool, len(places))
	for i := range places {
		g := &places[i]
		switch {
		case len(g.ID) > MaxDeviceName || len(g.NVLink) > MaxDeviceName:
			return fmt.Sprintf("GPU %d: more than %d bytes of a name, the limit", i, MaxDeviceName)
		case g.NUMA != nil && (*g.NUMA < -1 || *g.NUMA > maxNUMA):
			return fmt.Sprintf("GPU %d: numa is %d: want a number from 0 to %d", i, *g.NUMA, maxNUMA)
		case g.Memory < 0 || g.Memory > engine.MaxCardMemory || g.Parts < 0 || g.Parts > maxParts || g.Parts > 0 && (g.Memory == 0 || g.ID == ""):
			return fmt.Sprintf("GPU %d: %d MiB and %d parts: want an id and a memory where there are parts, of which at most %d", i, g.Memory, g.Parts, maxParts)
		case (g.ID == "") != (places[0].ID == ""):
			return fmt.Sprintf("GPU %d: want an id for each GPU, or for none", i)
		case g.ID != "" && seen[g.ID]:
			return fmt.Sprintf("GPU %d: the id %s is there twice", i, quoted(g.ID))
		}
		seen[g.ID] = true
	}
	return ""
}

// healthy counts the GPUs that the node can offer.
func healthy(places []v1alpha1.GPUPlace) (n int64) {
	for i := range places {
		if !places[i].Unhealthy {
			n++
		}
	}
	return n
}

// placed are the GPUs of the node as they lie.
func placed(node, model string, places []v1alpha1.GPUPlace) []engine.Device {
	out := make([]engine.Device, len(places))
	for i := range places {
		g := &places[i]
		out[i] = engine.Device{ID: deviceID(node, i, g.ID), Model: model, Clique: g.NVLink, NUMA: -1, Unhealthy: g.Unhealthy}
		if g.NUMA != nil {
			out[i].NUMA = *g.NUMA
		}
		if out[i].Memory = g.Memory; g.Memory > 0 {
			out[i].Parts = g.Parts
		}
	}
	return out
}
