package supply

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/clusterautoscaler"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

// makerGroups are the API groups of projects that make nodes. What their objects report is about machines.
var makerGroups = regexp.MustCompile(`(^|\.)(karpenter\.sh|karpenter\.[a-z0-9.-]+|cluster\.x-k8s\.io|machine\.openshift\.io|metal3\.io|gardener\.cloud|machine\.sapcloud\.io|tinkerbell\.org|sidero\.dev|rke-machine(-config)?\.cattle\.io|cloud\.google\.com|eks\.amazonaws\.com|compute\.cnrm\.cloud\.google\.com|container\.cnrm\.cloud\.google\.com|hypershift\.openshift\.io)$`)

// makerKinds are names that others give to what makes nodes, or to a machine before it is one.
var makerKinds = regexp.MustCompile(`^(\w*(Node|Machine)(Pool|Group|Set|Claim|Fleet|Deployment)|(Instance|Server|Host|VM|BareMetal|GPU|Gpu)(Pool|Group|Fleet)|(Worker|Agent|Compute)(Pool|Fleet)|Machine|Instance|ComputeClass|BareMetalHost)$`)

// makes says whether the object is of somebody who makes nodes. Machines and Pools of Berth have checks of their own.
func makes(u *unstructured.Unstructured) bool {
	group := u.GroupVersionKind().Group
	return makerGroups.MatchString(group) || makerKinds.MatchString(u.GetKind()) && group != "berth.dev" && !strings.HasSuffix(group, ".berth.dev")
}

// Reported is a fault of an object of those who make nodes.
type Reported struct {
	Text     string
	Fault    cloudFault
	Evidence facts.Evidence
}

// Supply says whether the fault is of stock, quota or a reservation.
func (r *Reported) Supply() bool {
	return r.Fault != cloudOther && r.Fault != CloudNoMachine && r.Fault != CloudRefused
}

// ReportedByMakers are faults that objects of those who make nodes report, of kinds that no other check reads, as far as the
// objects have to do with nodes for the pod: they name its device, a machine with GPUs, a label that it asks for, or the pool of
// a node that it could use.
func ReportedByMakers(c *check.Case) []Reported {
	words := namesOf(c)
	device, _ := podspec.Device(c.Pod)
	var out []Reported
	var who []*unstructured.Unstructured
	for _, kind := range sortedKinds(c.Facts) {
		for _, u := range c.Foreign[kind] {
			if !makes(u) || u.GetDeletionTimestamp() != nil || !concerns(u, words, device != "") {
				continue
			}
			if k, ok := faultOf(u); ok {
				fault := saidBy(k)
				out = append(out, Reported{
					Text:     fmt.Sprintf("%s reports %s: %s", facts.RefTo(u), reportedAs(k), CloudText(cmp.Or(k.Message, k.Reason))),
					Fault:    fault,
					Evidence: facts.Evidence{Object: facts.RefTo(u).In(), Field: k.Field, Value: cmp.Or(k.Message, k.Reason, k.Status)},
				})
				who = append(who, u)
			}
		}
	}
	return firstHand(c.Facts, out, who)
}

// reportedAs words where the fault stands: in a condition, or in a field that has nothing but faults.
func reportedAs(k facts.Condition) string {
	if strings.HasPrefix(k.Field, "status.conditions[") {
		return fmt.Sprintf("that %s is %s", k.Type, k.Status)
	}
	return "in " + k.Field
}

// firstHand leaves out what only passes on a report from below: a set of machines is not ready because of a machine of it, and a machine because
// of the cloud's own object for it. The last one down says what is wrong.
func firstHand(f *facts.Facts, all []Reported, who []*unstructured.Unstructured) []Reported {
	if len(all) < 2 {
		return all
	}
	reports := make(map[*unstructured.Unstructured]bool, len(who))
	for _, u := range who {
		reports[u] = true
	}
	passes := make(map[*unstructured.Unstructured]bool)
	for _, u := range who {
		for seen, look := map[*unstructured.Unstructured]bool{u: true}, []*unstructured.Unstructured{u}; len(look) > 0; {
			at := look[0]
			look = look[1:]
			for _, up := range above(f, at) {
				if !seen[up] && len(seen) < 64 {
					seen[up] = true
					look = append(look, up)
					if reports[up] {
						passes[up] = true
					}
				}
			}
		}
	}
	var out []Reported
	for i, u := range who {
		if !passes[u] {
			out = append(out, all[i])
		}
	}
	if len(out) == 0 { // they name each other
		return all
	}
	return out
}

// above are the objects of those who make nodes that this one is made for: its owners, those that its labels of their API group name, and
// those whose spec names it by kind.
func above(f *facts.Facts, u *unstructured.Unstructured) (out []*unstructured.Unstructured) {
	for _, kind := range sortedKinds(f) {
		for _, up := range f.Foreign[kind] {
			if up == u || !makes(up) || up.GetNamespace() != "" && up.GetNamespace() != u.GetNamespace() {
				continue
			}
			owns := slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == up.GetUID() && r.UID != "" })
			if owns || labelledFor(u, up) || refersTo(up.Object["spec"], u, 0) {
				out = append(out, up)
			}
		}
	}
	return out
}

// labelledFor says whether a label of the API group of up, on u, has the name of up.
func labelledFor(u, up *unstructured.Unstructured) bool {
	//archtest:any-order it says whether any label does
	for key, value := range u.GetLabels() {
		domain, what, ok := strings.Cut(key, "/")
		group := up.GroupVersionKind().Group
		if ok && value == up.GetName() && (domain == group || strings.HasSuffix(domain, "."+group)) && sharesWord(what, up.GetKind()) {
			return true
		}
	}
	return false
}

// sharesWord says whether a part of the label's name is a part of the kind: deployment-name and MachineDeployment.
func sharesWord(what, kind string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(what), func(r rune) bool { return r < 'a' || r > 'z' }), func(w string) bool {
		return w != "name" && strings.Contains(strings.ToLower(kind), w)
	})
}

// refersTo says whether a reference with kind and name means the object.
func refersTo(at any, u *unstructured.Unstructured, depth int) bool {
	if depth > 8 {
		return false
	}
	switch at := at.(type) {
	case []any:
		return slices.ContainsFunc(at, func(v any) bool { return refersTo(v, u, depth+1) })
	case map[string]any:
		if at["kind"] == u.GetKind() && at["name"] == u.GetName() {
			return true
		}
		//archtest:any-order it says whether any reference does
		for _, v := range at {
			if refersTo(v, u, depth+1) {
				return true
			}
		}
	}
	return false
}

// faultOf is a fault of the object: of several, the first that speaks of stock or quota. Launching, registering and pools' own conditions have checks of their own.
func faultOf(u *unstructured.Unstructured) (facts.Condition, bool) {
	var first facts.Condition
	kind, karpenters := u.GetKind(), u.GroupVersionKind().Group == "karpenter.sh"
	for _, k := range facts.ConditionsOf(u) {
		own := karpenters && (kind == "NodePool" || kind == "NodeClaim" && (k.Type == "Launched" || k.Type == "Registered" || k.Type == "Initialized" || k.Type == "Ready"))
		if !k.Bad() || k.Status == "Unknown" || own || strings.HasSuffix(kind, "NodeClass") {
			continue
		}
		if saidBy(k) != cloudOther {
			return k, true
		}
		if first.Type == "" || first.Message == "" && k.Message != "" { // a word says less than a sentence
			first = k
		}
	}
	return first, first.Type != ""
}

// Conditions are named after what they are about, and their reasons and messages are short for it: Quota is False, as Over.
var (
	aboutQuota = regexp.MustCompile(`(?i)quota`)
	aboutStock = regexp.MustCompile(`(?i)^(in)?(sufficient)?(machine|node|instance)?(capacity|stock|inventory)(available|sufficient)?$`)
)

// saidBy is what the condition says of stock, quota or a reservation: by its reason and message, else by its name.
func saidBy(k facts.Condition) cloudFault {
	fault, _ := cloudFaultOf(k.Reason + ": " + k.Message)
	switch {
	case fault != cloudOther:
		return fault
	case aboutQuota.MatchString(k.Type):
		return CloudNoQuota
	case aboutStock.MatchString(k.Type):
		return CloudNoCapacity
	}
	return cloudOther
}

// MakerNamed is the object of those who make nodes that the need means: its name is a value of a label that is called after its kind and its API
// group, as cloud.google.com/compute-class is after a ComputeClass; nil where there is none. Why it has made no node is another question than what the
// nodes of today have.
func MakerNamed(c *check.Case, n place.Need) *unstructured.Unstructured {
	all := makersBy(c, n.Key)
	if i := slices.IndexFunc(all, func(u *unstructured.Unstructured) bool { return slices.Contains(n.Values, u.GetName()) }); i >= 0 {
		return all[i]
	}
	return nil
}

// MakerMeant is one whose name is written almost as a value of the need; nil: there is none.
func MakerMeant(c *check.Case, n place.Need) *unstructured.Unstructured {
	all := makersBy(c, n.Key)
	i := slices.IndexFunc(all, func(u *unstructured.Unstructured) bool {
		return slices.ContainsFunc(n.Values, func(v string) bool { return place.MeansSame(v, u.GetName()) })
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// makersBy are the objects of makers that labels of the key name.
func makersBy(c *check.Case, key string) (out []*unstructured.Unstructured) {
	domain, what, ok := strings.Cut(key, "/")
	if !ok {
		return nil
	}
	for _, kind := range sortedKinds(c.Facts) {
		for _, u := range c.Foreign[kind] {
			group := u.GroupVersionKind().Group
			part, of := strings.CutSuffix(domain, group)
			if of && makes(u) && group != "karpenter.sh" && u.GetDeletionTimestamp() == nil && sharesWord(part+"/"+what, u.GetKind()) {
				out = append(out, u)
			}
		}
	}
	return out
}

// ReportsFault says whether the object of a maker reports one.
func ReportsFault(u *unstructured.Unstructured) bool {
	_, ok := faultOf(u)
	return ok
}

func sortedKinds(f *facts.Facts) []string {
	var out []string
	for k := range f.Foreign {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// namesOf are the words that tie an object of a node's maker to the pod.
func namesOf(c *check.Case) map[string]bool {
	out := make(map[string]bool)
	if device, _ := podspec.Device(c.Pod); device != "" {
		out[device] = true
	}
	for _, v := range c.Pod.Spec.NodeSelector {
		out[v] = true
	}
	if c.Fit != nil {
		for _, n := range c.Fit.Nodes {
			if len(n.Removed) == 0 && len(n.ExcludedBy) == 0 {
				out[n.Name] = true
				out[n.Labels[karpenter.PoolLabel]] = true
				_, pool := place.PoolOf(n.Node)
				out[pool], out[n.Labels[corev1.LabelInstanceTypeStable]] = true, true
			}
		}
	}
	delete(out, "")
	delete(out, "true")
	return out
}

// gpuModel is in the names of machines with GPUs, and of the GPUs themselves: gd-8xh100ib-i128, NVIDIA-H100-80GB-HBM3, gpu.a100.8.
var gpuModel = regexp.MustCompile(`(?i)(^|[^a-z0-9]|\dx)(g?h[12]00|h20|g?b[123]00|a100|a10g?|a30|a40|l4|l40s?|v100|mi[23]\d\d[a-z]?|gaudi\d?|dgx|hgx)([^0-9a-z]|ib|sxm|nvl|pcie|$)|(^|[^a-z])gpus?([^a-z]|$)`)

// concerns says whether the object's own words have one of the words in them, or a machine with GPUs where the pod asks for one.
func concerns(u *unstructured.Unstructured, words map[string]bool, gpus bool) bool {
	found := false
	var look func(at any, depth int)
	look = func(at any, depth int) {
		if found || depth > 8 {
			return
		}
		switch at := at.(type) {
		case string:
			found = words[at] || gpus && (karpenter.HasGPU(at) || gpuModel.MatchString(at))
		case []any:
			for _, v := range at {
				look(v, depth+1)
			}
		case map[string]any:
			//archtest:any-order it says whether any of them is one of the words
			for k, v := range at {
				found = found || words[k]
				look(v, depth+1)
			}
		}
	}
	look(u.GetName(), 0)
	look(u.Object["spec"], 0)
	look(dialect.Text(u.Object, "status", "nodeName"), 0)
	look(dialect.Text(u.Object, "status", "nodeRef", "name"), 0)
	//archtest:any-order as above
	for _, v := range u.GetLabels() {
		look(v, 0)
	}
	return found
}

// Shortages are reports of stock, or of quota, by those who make nodes.
func Shortages(c *check.Case, want cloudFault) (out []check.Finding) {
	if AutoscalerStuck(c) == nil {
		return nil
	}
	for _, r := range ReportedByMakers(c) {
		if r.Fault == want {
			out = append(out, check.Finding{Fit: true, Probe: AutoscalerProbe(c, Makes(c)), Message: "no machine is to be had for a node for the pod: " + r.Text, Evidence: []facts.Evidence{r.Evidence}})
		}
	}
	return out
}

// MakerDown says that whoever makes nodes does not run itself, by its Deployment or its lease; "" where it does, or nobody can tell.
func MakerDown(c *check.Case) (string, []facts.Evidence) {
	name := "cluster-autoscaler"
	if len(KarpenterPools(c.Facts)) > 0 {
		name = "karpenter"
	} else if len(AutoscalerGroups(c.Facts)) == 0 {
		return "", nil
	}
	if status := c.AutoscalerStatus(); name == "cluster-autoscaler" && len(status) > 0 {
		if h := clusterautoscaler.ParseHealth(status[0].Data["status"]); h.Cluster == "Unhealthy" {
			unready := 0
			for _, n := range c.Nodes {
				if !facts.NodeReady(n) {
					unready++
				}
			}
			return fmt.Sprintf("the cluster autoscaler makes no nodes while it finds the cluster unhealthy: %d of %d nodes are not Ready", unready, len(c.Nodes)),
				[]facts.Evidence{{Object: facts.RefTo(status[0]).In(), Field: "data.status clusterWide.health.status", Value: h.Cluster}}
		}
	}
	for _, d := range c.Deployments {
		if strings.Contains(d.Name, name) && d.Status.AvailableReplicas == 0 && (d.Spec.Replicas == nil || *d.Spec.Replicas > 0) && c.Now.Sub(d.CreationTimestamp.Time) > autoscalerSlow {
			return fmt.Sprintf("%s in namespace %s, which makes nodes, has no pod that is available", facts.RefTo(d), d.Namespace),
				[]facts.Evidence{{Object: facts.RefTo(d).In(), Field: "status.availableReplicas", Value: "0"}}
		}
		if strings.Contains(d.Name, name) && d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			return fmt.Sprintf("%s in namespace %s, which makes nodes, is scaled to 0", facts.RefTo(d), d.Namespace),
				[]facts.Evidence{{Object: facts.RefTo(d).In(), Field: "spec.replicas", Value: "0"}}
		}
	}
	for _, l := range c.Leases {
		if strings.Contains(l.Name, name) && l.Spec.RenewTime != nil && c.Now.Sub(l.Spec.RenewTime.Time) > autoscalerSlow {
			return fmt.Sprintf("whoever makes nodes has not renewed lease %s/%s since %s", l.Namespace, l.Name, wording.Minutes(c.Now.Sub(l.Spec.RenewTime.Time))),
				[]facts.Evidence{{Object: facts.RefTo(l).In(), Field: "spec.renewTime", Value: l.Spec.RenewTime.UTC().Format(time.RFC3339)}}
		}
	}
	return "", nil
}

// MayGrow says whether somebody could make a node that the pod can use, as far as can be told: a group of the cluster autoscaler of
// which no node is known may be of any kind.
func MayGrow(c *check.Case) bool {
	if NewNodeWouldSuit(c) {
		return true
	}
	return !c.Hypothetical() && slices.ContainsFunc(AutoscalerGroups(c.Facts), func(g *clusterautoscaler.Group) bool {
		fit, _ := autoscalerFits(c, g)
		return fit == autoscalerUnknown && g.Registered > 0 && !g.Full()
	})
}

// MakerSilent says that a source could make a node for the pod, has had the time for it, and says nothing; "" otherwise.
func MakerSilent(c *check.Case) (string, *AutoscalerSource) {
	if !c.Exists || c.Age() < KarpenterLaunches || KarpenterSaid(c) != nil || AutoscalerSaid(c) != nil {
		return "", nil
	}
	for _, s := range AutoscalerSources(c) {
		if s.Pool == nil || !AutoscalerWilling(c, s) || slices.ContainsFunc(s.Pool.Claims, func(u *unstructured.Unstructured) bool { return !dialect.IsTrue(u, "Initialized") }) {
			continue
		}
		return fmt.Sprintf("%s may make a node for the pod, which waits since %s, and has made none; Karpenter says nothing of it", s, wording.Minutes(c.Age())), s
	}
	return "", nil
}

// Makes is a node as the pod wishes it, made by nobody in particular.
func Makes(c *check.Case) *AutoscalerSource { return &AutoscalerSource{Like: AutoscalerWished(c)} }

// AutoscalerGaveUp says whether somebody tried to make nodes for the pod and could not: nobody else adds one just so.
func AutoscalerGaveUp(c *check.Case) bool {
	return AutoscalerSaid(c).Refused("in backoff after failed scale-up") > 0 || slices.ContainsFunc(ReportedByMakers(c), func(r Reported) bool { return r.Supply() })
}
