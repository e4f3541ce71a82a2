package facts

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Condition is what a controller reports of an object, of whichever kind.
type Condition struct {
	Type, Status, Reason, Message string
	Since                         time.Time // its last transition; zero where it does not say
	Field                         string    // where it is: status.conditions[Ready]
}

// ConditionsOf reads the conditions of any object: typed ones by their types, others from every list under status whose
// items have a type and a status. A phase or state that names a fault reads as a condition too.
func ConditionsOf(o Object) []Condition {
	var out []Condition
	add := func(kind, status, reason, message string, since metav1.Time) {
		out = append(out, Condition{Type: kind, Status: status, Reason: reason, Message: message, Since: since.Time, Field: "status.conditions[" + kind + "]"})
	}
	switch o := o.(type) {
	case *corev1.Pod:
		for _, c := range o.Status.Conditions {
			add(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	case *corev1.Node:
		for _, c := range o.Status.Conditions {
			add(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	case *corev1.PersistentVolumeClaim:
		for _, c := range o.Status.Conditions {
			add(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	case *corev1.Namespace:
		for _, c := range o.Status.Conditions {
			add(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	case *appsv1.Deployment:
		for _, c := range o.Status.Conditions {
			add(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	case *appsv1.ReplicaSet:
		for _, c := range o.Status.Conditions {
			add(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	case *appsv1.StatefulSet:
		for _, c := range o.Status.Conditions {
			add(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	case *appsv1.DaemonSet:
		for _, c := range o.Status.Conditions {
			add(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	case *batchv1.Job:
		for _, c := range o.Status.Conditions {
			add(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	case *schedulingv1beta1.PodGroup:
		for _, c := range o.Status.Conditions {
			add(c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	case *schedulingv1alpha3.CompositePodGroup:
		for _, c := range o.Status.Conditions {
			add(c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	case *resourcev1.ResourceClaim:
		for _, d := range o.Status.Devices {
			for _, c := range d.Conditions {
				add(c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
			}
		}
	case *unstructured.Unstructured:
		return foreignConditions(o)
	}
	return out
}

func foreignConditions(u *unstructured.Unstructured) []Condition {
	status, _ := u.Object["status"].(map[string]any)
	var out []Condition
	for _, list := range sortedKeys(status) {
		items, _ := status[list].([]any)
		for _, item := range items {
			m, _ := item.(map[string]any)
			kind, value := text(m, "type"), text(m, "status")
			if kind == "" || value == "" {
				continue
			}
			since, _ := time.Parse(time.RFC3339, text(m, "lastTransitionTime"))
			out = append(out, Condition{Type: kind, Status: value, Reason: text(m, "reason"), Message: text(m, "message"), Since: since, Field: "status." + list + "[" + kind + "]"})
		}
	}
	out = slices.DeleteFunc(out, func(c Condition) bool { return atRest(c, out) })
	for _, key := range sortedKeys(status) {
		word := text(status, key)
		waits := waitWord.MatchString(word) && text(status, "message") != "" // in a word, and says for what
		if stateField.MatchString(key) && (badWord.MatchString(word) || waits) {
			out = append(out, Condition{Type: key + " " + word, Status: string(metav1.ConditionTrue), Reason: text(status, "reason"), Message: cmp.Or(text(status, "message"), badParts(status)), Field: "status." + key})
		}
	}
	return append(out, outspoken(status)...)
}

// atRest says whether the condition only says that nothing is going on, of something that is well.
func atRest(c Condition, all []Condition) bool {
	return c.Type == "Progressing" && c.Status == string(metav1.ConditionFalse) && slices.ContainsFunc(all, func(o Condition) bool {
		return (o.Type == "Available" || o.Type == "Ready") && o.Status == string(metav1.ConditionTrue)
	})
}

// badParts are those parts of an object that are in a bad state, where it lists them by name: "state-OFED is notReady".
func badParts(status map[string]any) string {
	var out []string
	for _, list := range sortedKeys(status) {
		items, _ := status[list].([]any)
		for _, item := range items {
			m, _ := item.(map[string]any)
			for _, key := range []string{"state", "status", "phase"} {
				if name, word := text(m, "name"), text(m, key); name != "" && badWord.MatchString(word) {
					out = append(out, strings.TrimSuffix(name+" is "+word+": "+text(m, "message"), ": "))
				}
			}
		}
	}
	return strings.Join(out[:min(len(out), 4)], ", ")
}

// stateField is a field in which an object says in a word how it is: phase, state, jobDeploymentStatus.
var stateField = regexp.MustCompile(`(?i)(phase|state|status|health)$`)

// errorField is how objects that have no conditions say what went wrong, and readyField that they are not there yet.
var (
	errorField = regexp.MustCompile(`^(error|lastError|errorMessage|failureMessage|failureReason|lastErrorMessage|last[A-Z]\w*Error)$`)
	readyField = regexp.MustCompile(`^(ready|readyToUse|isReady|available|healthy)$`)
)

// outspoken reads fields of a status as conditions: an error with its message, and a plain "ready: false".
func outspoken(status map[string]any) []Condition {
	var out []Condition
	for _, key := range sortedKeys(status) {
		said := text(status, key)
		if m, ok := status[key].(map[string]any); ok {
			said = text(m, "message")
			for _, field := range []string{"state", "phase", "status", "result"} { // of a last operation
				if words := cmp.Or(said, text(m, "description")); words != "" && badWord.MatchString(text(m, field)) && !errorField.MatchString(key) {
					out = append(out, Condition{Type: key + " " + text(m, field), Status: string(metav1.ConditionTrue), Message: words, Field: "status." + key})
				}
			}
		}
		switch {
		case errorField.MatchString(key) && said != "":
			out = append(out, Condition{Type: key, Status: string(metav1.ConditionTrue), Message: said, Field: "status." + key})
		case readyField.MatchString(key) && status[key] == false:
			out = append(out, Condition{Type: key, Status: string(metav1.ConditionFalse), Field: "status." + key})
		}
	}
	return out
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func sortedKeys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// badWord is in the types of conditions, in phases and in reasons that are good news only while they are not True.
// Kubernetes' API conventions allow both polarities, and nothing in a condition says which one its author chose.
var badWord = regexp.MustCompile(`(?i)fail|error|degraded|pressure|unavailable|suspend|stall|stuck|terminating|deadlock|unschedulable|unhealthy|nothealthy|notready|evict|conflict|expired|revoked|paused|blocked|reject|denied|invalid|violat|disrupt|deactivat|missing|timedout|timeout|exceeded|misconfig|insufficient|exhaust|refused|unknown|broken|corrupt|readonlyfilesystem|pending|unresolv|notfound|backoff|quarantin|expir|closed|problem|fault|offline|flapping|throttl|overheat|required$|needed$|detected$|(link|node|port|host|power|fabric)-?down`)

// waitWord is a phase or state of an object that is held back on purpose: no fault by itself, and the reason why its work waits.
var waitWord = regexp.MustCompile(`(?i)^(waiting|held|on-?hold|queued|deferred|delayed|throttled|standby|parked)$`)

// neutral conditions say how far something has come, or what is going on: neither polarity is a fault.
var neutral = regexp.MustCompile(`(?i)^(complete|completed|succeeded|success|finished|ended|done|reconciling|drifted|consolidatable|drained|idle|empty|issuing|resizing|updating|upgrading|remediating|scaling(up|down)|rollingout|disruptionreason|instanceterminating|volumesdetached|filesystemresizepending|unused|requeued|preempted|successcriteriamet|restarting|deleting|disruptionallowed|podresizeinprogress|scalinglimited|ableto.*)$`)

// wellWord ends the types of conditions that are good news while they are True, and unWell those that are the contrary of one.
var (
	wellWord = regexp.MustCompile(`(?i)(ready|healthy|ok|available|passed|valid|verified|enabled|initiali[sz]ed|registered|connected|synced|configured|schedulable|online|active|supported|present|attached|installed|voter|leader)$`)
	unWell   = regexp.MustCompile(`(?i)(un|in|dis|not|non)-?(ready|healthy|ok|available|valid|verified|initiali[sz]ed|registered|connected|synced|configured|schedulable|active|supported|attached|installed)$`)
)

// NodeFault says whether a condition of a node, other than those of its kubelet, reports a fault. Conditions of nodes are named after problems, as
// node-problem-detector names them, unless their name is one of health: a word that nobody knows, as NVLinkDown, is bad while it is True.
func NodeFault(k corev1.NodeCondition) bool {
	kind := string(k.Type)
	well := wellWord.MatchString(kind) && !unWell.MatchString(kind)
	switch {
	case neutral.MatchString(kind):
		return false
	case well:
		return k.Status == corev1.ConditionFalse || strings.HasSuffix(k.Reason, "IsNotHealthy") && k.Status == corev1.ConditionTrue
	}
	return k.Status == corev1.ConditionTrue
}

// Bad says whether the condition reports a fault: False or Unknown of what should be, True of what should not.
func (c Condition) Bad() bool {
	if neutral.MatchString(c.Type) {
		return false
	}
	name := c.Type[strings.LastIndexByte(c.Type, '/')+1:]
	_, word, _ := strings.Cut(name, " ")
	switch negative := badWord.MatchString(name) || waitWord.MatchString(word); c.Status {
	case string(metav1.ConditionTrue):
		return negative || strings.HasSuffix(strings.ToLower(c.Reason), "nothealthy")
	case string(metav1.ConditionFalse):
		return !negative
	case string(metav1.ConditionUnknown):
		return true
	}
	return false
}
