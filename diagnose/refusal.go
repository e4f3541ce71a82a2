package diagnose

import (
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
)

// refusal is the API server's last word about a pod that it would not create, as the pod's owner passes it on.
type refusal struct {
	By      refuser
	Name    string // of the quota, webhook, policy, class or account that stands in the way; "" where none is named
	Binding string // of a policy
	Text    string // the API server's own words, from where they matter
	At      time.Time
	facts.Evidence
}

// refuser is what in the API server refused.
type refuser string

const (
	byQuota          refuser = "quota"
	byLimitRange     refuser = "limit range"
	byWebhook        refuser = "webhook"
	byBrokenWebhook  refuser = "broken webhook"
	byPolicy         refuser = "policy"
	byPodSecurity    refuser = "pod security"
	byPriorityClass  refuser = "priority class"
	byRuntimeClass   refuser = "runtime class"
	byServiceAccount refuser = "service account"
	byNamespace      refuser = "namespace"
	byRights         refuser = "rights"
	byValidation     refuser = "validation"
	byOther          refuser = "other"
)

// refusers are the API server's phrases, the most telling first. The groups are the name, and what is said.
var refusers = []struct {
	by     refuser
	phrase *regexp.Regexp
}{
	{byBrokenWebhook, regexp.MustCompile(`failed calling webhook "([^"]*)"[:;] ?(?s:(.*))`)},
	{byWebhook, regexp.MustCompile(`admission webhook "([^"]*)" denied the request:? ?(?s:(.*))`)},
	{byPolicy, regexp.MustCompile(`ValidatingAdmissionPolicy '([^']*)'(?: with binding '[^']*')? denied request: (?s:(.*))`)},
	{byPodSecurity, regexp.MustCompile(`violates PodSecurity "([^"]*)": (?s:(.*))`)},
	{byQuota, regexp.MustCompile(`(?:exceeded|failed) quota: ([^,: ]+)[,:] (?s:(.*))`)},
	{byQuota, regexp.MustCompile(`status unknown for quota: ([^,: ]+), (?s:(.*))`)},
	{byLimitRange, regexp.MustCompile(`()((?:(?:maximum|minimum) \S+ usage per (?:Container|Pod) is|\S+ max limit to request ratio per (?:Container|Pod) is)(?s:.*))`)},
	{byPriorityClass, regexp.MustCompile(`no PriorityClass with name (\S+) was found()`)},
	{byRuntimeClass, regexp.MustCompile(`pod rejected: RuntimeClass "([^"]*)" not found()`)},
	{byServiceAccount, regexp.MustCompile(`error looking up service account [^/ ]+/([^: ]+): (?s:(.*))`)},
	{byNamespace, regexp.MustCompile(`unable to create new content in namespace (\S+) because it is being terminated()`)},
	{byRights, regexp.MustCompile(`is forbidden: User "([^"]*)" (cannot (?s:.*))`)},
	{byValidation, regexp.MustCompile(`(?i:\bpod )"[^"]*" is invalid: ()(?s:(.*))`)},
	{byOther, regexp.MustCompile(`(?i:\bpods? )"[^"]*" is forbidden: ()(?s:(.*))`)},
}

var policyBinding = regexp.MustCompile(`ValidatingAdmissionPolicy '[^']*' with binding '([^']*)'`)

// readRefusal finds out what a message of somebody who failed to create a pod says.
func readRefusal(message string) (refusal, bool) {
	for _, r := range refusers {
		m := r.phrase.FindStringSubmatch(message)
		if m == nil {
			continue
		}
		out := refusal{By: r.by, Name: m[1], Text: strings.TrimSpace(m[2])}
		if b := policyBinding.FindStringSubmatch(message); b != nil && r.by == byPolicy {
			out.Binding = b[1]
		}
		if out.Text == "" {
			out.Text = strings.TrimSpace(m[0])
		}
		return out, true
	}
	return refusal{}, false
}

// lateness is by how much an event of success has to be younger than a failure to say that the failure is over: pods of
// one batch are made side by side.
const lateness = 5 * time.Second

// denial is the last refusal to create a pod like the one of the case, nil where there was none, the pod exists, or
// its owner has made others since. It holds after edits too: who goes by it has to look at what it names.
func (c *Case) denial() *refusal {
	if c.State != facts.Absent {
		return nil
	}
	var last *refusal
	var made time.Time
	note := func(message string, at time.Time, e facts.Evidence) {
		if r, ok := readRefusal(message); ok && (last == nil || at.After(last.At)) {
			r.At, r.Evidence = at, e
			last = &r
		}
	}
	for _, m := range c.Owners {
		r := facts.RefTo(m)
		for _, e := range c.EventsNamed(r.Kind, r.Namespace, r.Name) {
			switch {
			case e.InvolvedObject.UID != m.GetUID():
			case e.Type == corev1.EventTypeWarning:
				note(e.Message, facts.EventTime(e), facts.Evidence{Object: r.In(), Field: "event " + e.Reason, Value: e.Message})
			case strings.HasPrefix(e.Reason, "SuccessfulCreate") && facts.EventTime(e).After(made):
				made = facts.EventTime(e)
			}
		}
		for _, s := range failures(m) {
			note(s.Message, s.LastTransitionTime.Time, facts.Evidence{Object: r.In(), Field: "status.conditions[ReplicaFailure]", Value: s.Message})
		}
	}
	if last != nil && made.After(last.At.Add(lateness)) {
		return nil
	}
	return last
}

// failures are the conditions with which a owner says that it cannot make pods.
func failures(m facts.Object) []appsv1.ReplicaSetCondition {
	var out []appsv1.ReplicaSetCondition
	switch m := m.(type) {
	case *appsv1.ReplicaSet:
		for _, s := range m.Status.Conditions {
			if s.Type == appsv1.ReplicaSetReplicaFailure && s.Status == corev1.ConditionTrue {
				out = append(out, s)
			}
		}
	case *appsv1.Deployment:
		for _, s := range m.Status.Conditions {
			if s.Type == appsv1.DeploymentReplicaFailure && s.Status == corev1.ConditionTrue {
				out = append(out, appsv1.ReplicaSetCondition{Message: s.Message, LastTransitionTime: s.LastTransitionTime})
			}
		}
	}
	return out
}

// deniedBy is denial, where it is by this.
func (c *Case) deniedBy(by refuser) *refusal {
	if r := c.denial(); r != nil && r.By == by {
		return r
	}
	return nil
}

// bindingFails is how schedulers say that the API server does not take a pod's binding: Berth's, which tries again or lets
// nodes be for a while, and kube-scheduler.
var bindingFails = regexp.MustCompile(`^the binding to node \S+ (?:fails|waits)|^the binding to node .* admission webhook "[^"]*" denied|refused it: .*admission webhook "[^"]*" denied|^binding rejected: running Bind plugin`)

// notBound is the API server's refusal to bind the pod to a node that the scheduler found, as the scheduler passes it on,
// where it is by one of these; nil for a pod that has not come so far.
func (c *Case) notBound(by ...refuser) *refusal {
	if c.State != facts.Pending {
		return nil
	}
	for _, s := range c.Pod.Status.Conditions {
		if s.Type != corev1.PodScheduled || s.Status != corev1.ConditionFalse || !bindingFails.MatchString(s.Message) {
			continue
		}
		if r, ok := readRefusal(s.Message); ok && slices.Contains(by, r.By) {
			r.At = s.LastTransitionTime.Time
			r.Evidence = facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "status.conditions[PodScheduled]", Value: s.Reason + ": " + s.Message}
			return &r
		}
	}
	return nil
}

// wanted says whether the pod of the case is to be made now. What other projects' kinds want is theirs to say: that
// they tried shows it.
func (c *Case) wanted() bool {
	if c.State != facts.Absent {
		return false
	}
	_, foreign := c.Owner().(*unstructured.Unstructured)
	return c.Like > 0 || foreign && c.denial() != nil
}
