package supply

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// AutoscalerGroup is a node group of the cluster autoscaler, as its status tells.
type AutoscalerGroup struct {
	Name                    string
	Ready, Registered       int64
	Unregistered            int64 // machines that may yet become nodes
	LongUnregistered        int64 // and those that should have long ago
	Target, Min, Max        int64
	ScaleUp                 string // NoActivity, InProgress, Backoff, ...
	ErrorCode, ErrorMessage string // of Backoff
	Nodes                   []*corev1.Node
}

const AutoscalerStatusName = "cluster-autoscaler-status"

// AutoscalerGroups are the groups that the autoscaler's status lists, with the nodes that are known to be theirs.
func AutoscalerGroups(f *facts.Facts) []*AutoscalerGroup { return autoscaling(f).groups }

func readAutoscaler(f *facts.Facts) []*AutoscalerGroup {
	for _, m := range f.ConfigMaps {
		if m.Name != AutoscalerStatusName {
			continue
		}
		groups := decodeAutoscaler(m.Data["status"])
		for _, g := range groups {
			for _, n := range f.Nodes {
				if g.owns(n) {
					g.Nodes = append(g.Nodes, n)
				}
			}
		}
		return groups
	}
	return nil
}

// autoscalerStatus is what the ConfigMap has from Kubernetes 1.30 on.
type autoscalerStatus struct {
	NodeGroups []struct {
		Name   string `json:"name"`
		Health struct {
			NodeCounts struct {
				Registered struct {
					Total int64 `json:"total"`
					Ready int64 `json:"ready"`
				} `json:"registered"`
				LongUnregistered int64 `json:"longUnregistered"`
				Unregistered     int64 `json:"unregistered"`
			} `json:"nodeCounts"`
			CloudProviderTarget int64 `json:"cloudProviderTarget"`
			MinSize             int64 `json:"minSize"`
			MaxSize             int64 `json:"maxSize"`
		} `json:"health"`
		ScaleUp struct {
			Status      string `json:"status"`
			BackoffInfo struct {
				ErrorCode    string `json:"errorCode"`
				ErrorMessage string `json:"errorMessage"`
			} `json:"backoffInfo"`
		} `json:"scaleUp"`
	} `json:"nodeGroups"`
}

// decodeAutoscaler reads the autoscaler's status: YAML, or the text that releases before wrote.
func decodeAutoscaler(text string) []*AutoscalerGroup {
	var s autoscalerStatus
	if err := yaml.Unmarshal([]byte(text), &s); err != nil || len(s.NodeGroups) == 0 {
		return decodeOldAutoscaler(text)
	}
	var out []*AutoscalerGroup
	for _, g := range s.NodeGroups {
		if g.Name == "" {
			continue
		}
		n := g.Health.NodeCounts
		out = append(out, &AutoscalerGroup{
			Name: g.Name, Ready: n.Registered.Ready, Registered: n.Registered.Total, Unregistered: n.Unregistered, LongUnregistered: n.LongUnregistered,
			Target: g.Health.CloudProviderTarget, Min: g.Health.MinSize, Max: g.Health.MaxSize,
			ScaleUp: g.ScaleUp.Status, ErrorCode: g.ScaleUp.BackoffInfo.ErrorCode, ErrorMessage: g.ScaleUp.BackoffInfo.ErrorMessage,
		})
	}
	return out
}

var (
	autoscalerLine   = regexp.MustCompile(`^\s*(Name|Health|ScaleUp):\s+(\S+)\s*(.*)$`)
	autoscalerNumber = regexp.MustCompile(`(\w+)=(\d+)`)
)

// decodeOldAutoscaler reads lines like "Health: Healthy (ready=3 ... cloudProviderTarget=3 (minSize=1, maxSize=3))".
func decodeOldAutoscaler(text string) []*AutoscalerGroup {
	var out []*AutoscalerGroup
	for _, line := range strings.Split(text, "\n") {
		m := autoscalerLine.FindStringSubmatch(line)
		switch {
		case m == nil:
		case m[1] == "Name":
			out = append(out, &AutoscalerGroup{Name: m[2]})
		case len(out) == 0: // of the cluster as a whole
		case m[1] == "ScaleUp":
			out[len(out)-1].ScaleUp = m[2]
		default:
			g := out[len(out)-1]
			into := map[string]*int64{"ready": &g.Ready, "registered": &g.Registered, "longUnregistered": &g.LongUnregistered, "cloudProviderTarget": &g.Target, "minSize": &g.Min, "maxSize": &g.Max}
			for _, pair := range autoscalerNumber.FindAllStringSubmatch(m[3], -1) {
				if at := into[pair[1]]; at != nil {
					*at, _ = strconv.ParseInt(pair[2], 10, 64)
				}
			}
		}
	}
	return out
}

// Short is the group's name without where it is kept.
func (g *AutoscalerGroup) Short() string { return strings.TrimSuffix(path.Base(g.Name), "-grp") }

// owns says whether the node is of the group, by its name or by the pool that its labels name: groups are known by
// names that clouds make of the pool's.
func (g *AutoscalerGroup) owns(n *corev1.Node) bool {
	short := g.Short()
	if rest, ok := strings.CutPrefix(n.Name, short); ok && (rest == "" || rest[0] == '-' || rest[0] >= '0' && rest[0] <= '9') {
		return true
	}
	_, pool := place.PoolOf(n)
	return pool != "" && g.mentions(pool)
}

// mentions says whether the word is a part of the group's name.
func (g *AutoscalerGroup) mentions(word string) bool {
	return word != "" && strings.Contains("-"+strings.ToLower(g.Short())+"-", "-"+strings.ToLower(word)+"-")
}

// Full says whether the group may not grow.
func (g *AutoscalerGroup) Full() bool { return g.Max > 0 && g.Target >= g.Max }

// AutoscalerWord is the newest thing that the cluster autoscaler said of a pod. A nil one is silence.
type AutoscalerWord struct {
	Event    *corev1.Event
	Grows    []autoscalerGrowth // the groups that grow for it; else
	reasons  []place.SaidReason // why none does, with the number of groups; and
	failures string             // what went wrong when one did
}

// autoscalerGrowth is one group that grows for a pod.
type autoscalerGrowth struct {
	Group    string
	From, To int64
}

// AutoscalerSaid returns it.
func AutoscalerSaid(c *check.Case) *AutoscalerWord {
	if !c.Exists {
		return nil
	}
	for _, e := range c.EventsOf(c.Pod, "TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp") {
		if w, ok := decodeAutoscalerWord(e.Message); ok {
			w.Event = e
			return &w
		}
	}
	return nil
}

var autoscalerGrows = regexp.MustCompile(`\{(\S+) (\d+)->(\d+) \(max: \d+\)\}`)

// decodeAutoscalerWord reads events of pods: "pod triggered scale-up: [{group 1->2 (max: 4)}]", "pod didn't trigger
// scale-up: 1 max node group size reached, 2 ...", and GKE's "Node scale up in zones a failed: GCE out of resources".
func decodeAutoscalerWord(message string) (AutoscalerWord, bool) {
	var w AutoscalerWord
	text, ok := strings.CutPrefix(message, "pod triggered scale-up: ")
	if ok {
		for _, m := range autoscalerGrows.FindAllStringSubmatch(text, -1) {
			from, _ := strconv.ParseInt(m[2], 10, 64)
			to, _ := strconv.ParseInt(m[3], 10, 64)
			w.Grows = append(w.Grows, autoscalerGrowth{m[1], from, to})
		}
		return w, len(w.Grows) > 0
	}
	if text, ok = strings.CutPrefix(message, "pod didn't trigger scale-up:"); ok {
		w.reasons, _ = place.Histogram(strings.TrimSpace(text))
		return w, true
	}
	if strings.HasPrefix(message, "pod didn't trigger scale-up") {
		return w, true
	}
	if _, text, ok = strings.Cut(message, "failed: "); ok && strings.Contains(strings.ToLower(message), "scale up") {
		w.failures = text
		return w, true
	}
	return AutoscalerWord{}, false
}

// Refused is how many groups the autoscaler left as they are with a reason that has one of the phrases.
func (w *AutoscalerWord) Refused(phrases ...string) int {
	if w == nil {
		return 0
	}
	n := 0
	for _, r := range w.reasons {
		if slices.ContainsFunc(phrases, func(s string) bool { return strings.Contains(r.Text, s) }) {
			n += r.Nodes
		}
	}
	return n
}

// Unsuited says whether the autoscaler found that no group's nodes would match the pod.
func (w *AutoscalerWord) Unsuited() bool {
	return w.Refused("node affinity/selector", "untolerated taint") > 0 && w.Refused("max node group size reached", "max total nodes", "in backoff") == 0
}

func (w *AutoscalerWord) Evidence(c *check.Case) []facts.Evidence {
	if w == nil {
		return nil
	}
	return []facts.Evidence{autoscalerEvent(c.Pod, w.Event)}
}

// AutoscalerProvisions is how long the autoscaler gives a machine to become a node, unless it is told otherwise.
const AutoscalerProvisions = 15 * time.Minute

// autoscalerFit is whether nodes of a group would do for a pod.
type autoscalerFit int

const (
	autoscalerUnknown autoscalerFit = iota // none of its nodes is known
	autoscalerSuits
	autoscalerUnfit
)

// autoscalerFits says so by the nodes that the group has, and by its name where it has none.
func autoscalerFits(c *check.Case, g *AutoscalerGroup) (autoscalerFit, *corev1.Node) {
	for _, n := range g.Nodes[:min(len(g.Nodes), autoscalerSample)] {
		whole := gpustack.Repaired(c.Facts, n)
		if podspec.Suits(c.Pod, whole) && podspec.Fits(podspec.Requests(c.Pod), whole.Status.Allocatable) {
			return autoscalerSuits, whole
		}
	}
	if len(g.Nodes) > 0 {
		return autoscalerUnfit, nil
	}
	if autoscalerNamed(c, g) {
		return autoscalerSuits, AutoscalerWished(c)
	}
	return autoscalerUnknown, nil
}

// autoscalerNamed says whether an empty group's name says that it is for pods like this one: it has a value that the
// pod selects, or, where no label is missing, the pod's device.
func autoscalerNamed(c *check.Case, g *AutoscalerGroup) bool {
	if g.Registered > 0 {
		return false
	}
	device, ask := podspec.Device(c.Pod)
	if device != "" && ask > autoscalerDevices {
		return false
	}
	dead := slices.DeleteFunc(place.NeedsOf(&c.Pod.Spec), func(n place.Need) bool {
		return slices.ContainsFunc(c.Nodes, func(node *corev1.Node) bool { return n.Met(node.Labels) })
	})
	for _, n := range dead {
		if slices.ContainsFunc(n.Values, g.mentions) {
			return true
		}
	}
	return len(dead) == 0 && device != "" && place.DeviceWord.MatchString(g.Short())
}

// AutoscalerWished is a node that has just what the pod asks for.
func AutoscalerWished(c *check.Case) *corev1.Node {
	n := &corev1.Node{}
	n.Labels = map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}
	for _, w := range place.NeedsOf(&c.Pod.Spec) {
		if len(w.Values) > 0 {
			n.Labels[w.Key] = w.Values[0]
		} else {
			n.Labels[w.Key] = "true"
		}
	}
	have := podspec.Requests(c.Pod)
	have[corev1.ResourcePods] = podspec.Quantity("pods", 110)
	n.Status = corev1.NodeStatus{Capacity: have, Allocatable: have.DeepCopy(), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}}
	return n
}
