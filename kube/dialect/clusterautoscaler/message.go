package clusterautoscaler

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/kube/dialect/kubescheduler"
)

// Message is the newest thing that the cluster autoscaler said of a pod. A nil one is silence.
type Message struct {
	Event    *corev1.Event
	Grows    []Growth               // the groups that grow for it; else
	Reasons  []kubescheduler.Reason // why none does, with the number of groups; and
	Failures string                 // what went wrong when one did
}

// Growth is one group that grows for a pod.
type Growth struct {
	Group    string
	From, To int64
}

var growthForm = regexp.MustCompile(`\{(\S+) (\d+)->(\d+) \(max: \d+\)\}`)

// ParseMessage reads events of pods: "pod triggered scale-up: [{group 1->2 (max: 4)}]", "pod didn't trigger
// scale-up: 1 max node group size reached, 2 ...", and GKE's "Node scale up in zones a failed: GCE out of resources".
func ParseMessage(message string) (Message, bool) {
	var w Message
	text, ok := strings.CutPrefix(message, "pod triggered scale-up: ")
	if ok {
		for _, m := range growthForm.FindAllStringSubmatch(text, -1) {
			from, _ := strconv.ParseInt(m[2], 10, 64)
			to, _ := strconv.ParseInt(m[3], 10, 64)
			w.Grows = append(w.Grows, Growth{m[1], from, to})
		}
		return w, len(w.Grows) > 0
	}
	if text, ok = strings.CutPrefix(message, "pod didn't trigger scale-up:"); ok {
		w.Reasons, _ = kubescheduler.ParseReasons(strings.TrimSpace(text))
		return w, true
	}
	if strings.HasPrefix(message, "pod didn't trigger scale-up") {
		return w, true
	}
	if m := failureForm.FindStringSubmatch(message); m != nil {
		w.Failures = m[1] + m[2]
		return w, true
	}
	return Message{}, false
}

// failureForm is how autoscalers say that a group did not grow: "Node scale up in zones a failed: ...", "scale-up of group g failed with: ...".
var failureForm = regexp.MustCompile(`(?is)\bscal\w*[ -]?up\b.*?\bfail\w*.*?: (.+)|\bfail\w* to (?:scale[ -]?up|increase|grow)\b.*?: (.+)`)

// Refused is how many groups the autoscaler left as they are with a reason that has one of the phrases.
func (w *Message) Refused(phrases ...string) int {
	if w == nil {
		return 0
	}
	n := 0
	for _, r := range w.Reasons {
		if slices.ContainsFunc(phrases, func(s string) bool { return strings.Contains(r.Text, s) }) {
			n += r.Nodes
		}
	}
	return n
}

// clusterLimit is how the autoscaler says that the whole cluster may have no more of some resources, which its --cores-total,
// --memory-total and --gpu-total limit (core/scaleup/orchestrator/skippedreasons.go, 1.37).
var clusterLimit = regexp.MustCompile(`max cluster (\S.*?) limit reached`)

// ClusterLimit is the resources of which the whole cluster has as much as it may have.
func (w *Message) ClusterLimit() (resources string, ok bool) {
	if w == nil || w.Event == nil {
		return "", false
	}
	m := clusterLimit.FindStringSubmatch(w.Event.Message)
	if m == nil {
		return "", false
	}
	return strings.ReplaceAll(m[1], ", ", " and "), true
}

// Unsuited says whether the autoscaler found that no group's nodes would match the pod.
func (w *Message) Unsuited() bool {
	return w.Refused("node affinity/selector", "untolerated taint") > 0 && w.Refused("max node group size reached", "max total nodes", "max cluster ", "in backoff") == 0
}
