package place

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// AskInstead has the containers that ask for GPUs ask for this, and for no other.
func AskInstead(c *check.Case, name corev1.ResourceName, n int64, text string) edit.Edit {
	e := edit.Edit{Side: edit.Workload, Text: text, Cost: 2}
	amount := resource.NewQuantity(n, resource.DecimalSI).String()
	for i, o := range Written(c).Spec.Containers {
		asked := false
		for _, list := range []struct {
			name string
			of   corev1.ResourceList
		}{{"requests", o.Resources.Requests}, {"limits", o.Resources.Limits}} {
			for _, was := range podspec.Names(list.of) {
				if !strings.HasPrefix(string(was), "nvidia.com/") {
					continue
				}
				asked = true
				if was != name {
					e.Ops = append(e.Ops, edit.Op{Op: "remove", Path: edit.Pointer("spec", "containers", strconv.Itoa(i), "resources", list.name, string(was))})
				}
			}
			if list.name == "limits" && asked || list.name == "requests" && len(o.Resources.Requests) > 0 && asked {
				e.Ops = append(e.Ops, edit.Op{Op: "add", Path: edit.Pointer("spec", "containers", strconv.Itoa(i), "resources", list.name, string(name)), Value: amount})
			}
		}
	}
	return e
}

// DivideAnew has the MIG manager divide the GPUs of nodes on which nobody uses them, as the pod asks: the manager changes all
// GPUs of a node at once, and none that is in use. Where the strategy is single, parts have another name than is asked for.
func DivideAnew(c *check.Case, whole int64, parts []gpustack.MIGProfile, nodes []*check.NodeFit) []edit.Edit {
	config := ""
	switch {
	case whole > 0 && len(parts) == 0:
		config = "all-disabled"
	case whole == 0 && len(parts) == 1:
		config = "all-" + parts[0].Name
	}
	idle := NodesWhere(nodes, func(n *corev1.Node) bool {
		if n.Labels[gpustack.LabelMIG] == config {
			return false // to write what is written already changes nothing, and the manager acts on changes
		}
		return n.Labels[gpustack.LabelMIG] != "" && n.Labels[gpustack.LabelMIGStrategy] != gpustack.StrategySingle && gpustack.NodeNamed(c.Facts, n.Name) != nil && len(gpustack.NodeNamed(c.Facts, n.Name).Ready(gpustack.RoleMIG)) > 0 && !slices.ContainsFunc(c.PodsOn(n.Name), gpustack.WantsGPU)
	})
	if config == "" || len(idle) == 0 {
		return nil
	}
	mend := func(n *corev1.Node) {
		gpustack.PartitionAs(c.Facts, n, config)
		n.Labels = gpustack.WithLabel(n.Labels, gpustack.LabelMIG, config)
	}
	few := Fewest(c, idle, mend)
	return []edit.Edit{{
		Side: edit.Cluster, Cost: 6, Set: Mended(few, mend), Assumes: "the MIG manager knows the configuration " + config,
		Text:    fmt.Sprintf("have the GPUs of %s, which nobody uses, divided as %s", NamesOf(few), config),
		Command: fmt.Sprintf("kubectl label node %s %s=%s --overwrite", NodeWords(few), gpustack.LabelMIG, config),
	}}
}

// Attracted are the nodes that the pod's own wishes about labels allow.
func Attracted(c *check.Case, f *check.Fit) []*check.NodeFit {
	var out []*check.NodeFit
	required := nodeaffinity.GetRequiredNodeAffinity(c.Pod) // to parse it costs far more than to match it
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if ok, err := required.Match(n.Node); ok && err == nil {
			out = append(out, n)
		}
	}
	return out
}
