package life

import (
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/report"
)

// Refusal is the API server's last word about a pod that it would not create, as the pod's owner passes it on.
type Refusal struct {
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
	ByQuota          refuser = "quota"
	ByLimitRange     refuser = "limit range"
	ByWebhook        refuser = "webhook"
	ByBrokenWebhook  refuser = "broken webhook"
	ByPolicy         refuser = "policy"
	ByPodSecurity    refuser = "pod security"
	ByPriorityClass  refuser = "priority class"
	ByRuntimeClass   refuser = "runtime class"
	ByServiceAccount refuser = "service account"
	ByNamespace      refuser = "namespace"
	ByRights         refuser = "rights"
	ByValidation     refuser = "validation"
	ByConversion     refuser = "conversion webhook"
	ByName           refuser = "name"      // somebody else has it
	ByAdmission      refuser = "admission" // it computes a field that was written otherwise
	ByOther          refuser = "other"
)

// refusers are the API server's phrases, the most telling first. The groups are the name, and what is said.
var refusers = []struct {
	by     refuser
	phrase *regexp.Regexp
}{
	{ByConversion, regexp.MustCompile(`conversion webhook for ([^,\s]+, Kind=\w+) failed:? ?(?s:(.*))`)},
	{ByBrokenWebhook, regexp.MustCompile(`failed calling webhook "([^"]*)"[:;] ?(?s:(.*))`)},
	{ByWebhook, regexp.MustCompile(`admission webhook "([^"]*)" denied the request:? ?(?s:(.*))`)},
	{ByPolicy, regexp.MustCompile(`ValidatingAdmissionPolicy '([^']*)'(?: with binding '[^']*')? denied request: (?s:(.*))`)},
	{ByPodSecurity, regexp.MustCompile(`violates PodSecurity "([^"]*)": (?s:(.*))`)},
	{ByQuota, regexp.MustCompile(`(?:exceeded|failed) quota: ([^,: ]+)[,:] (?s:(.*))`)},
	{ByQuota, regexp.MustCompile(`status unknown for quota: ([^,: ]+), (?s:(.*))`)},
	{ByQuota, regexp.MustCompile(`insufficient quota to match these \S+: ()(?s:(.*))`)}, // "scopes", which bundles mask; of no quota: there is none
	{ByLimitRange, regexp.MustCompile(`()((?:(?:maximum|minimum) \S+ usage per (?:Container|Pod|PersistentVolumeClaim) is|\S+ max limit to request ratio per (?:Container|Pod) is)(?s:.*))`)},
	{ByPriorityClass, regexp.MustCompile(`no PriorityClass with name (\S+) was found()`)},
	{ByRuntimeClass, regexp.MustCompile(`pod rejected: RuntimeClass "([^"]*)" not found()`)},
	{ByServiceAccount, regexp.MustCompile(`error looking up service account [^/ ]+/([^: ]+): (?s:(.*))`)},
	{ByNamespace, regexp.MustCompile(`unable to create new content in namespace (\S+) because it is being terminated()`)},
	{ByRights, regexp.MustCompile(`is forbidden: User "([^"]*)" (cannot (?s:.*))`)},
	{ByValidation, regexp.MustCompile(`(?i:\bpod |\bresourceclaim\.resource\.k8s\.io |\bpersistentvolumeclaim )"[^"]*" is invalid: ()(?s:(.*))`)},
	{ByAdmission, regexp.MustCompile(`(?:the (?:integer|string) value of (?i:(priority|preemptionPolicy)) \([^)]*\) must not be provided in pod spec(?s:.*))()`)},
	{ByAdmission, regexp.MustCompile(`Pod(?:'s)? (Overhead) (?:doesn't match|set without corresponding) RuntimeClass.*()`)},
	{ByName, regexp.MustCompile(`pods "([^"]*)" already exists()`)}, // "object is being deleted: " may stand before it
	{ByOther, regexp.MustCompile(`(?i:\bpods? |\bresourceclaims\.resource\.k8s\.io |\bpersistentvolumeclaims )"[^"]*" is forbidden: ()(?s:(.*))`)},
}

var policyBinding = regexp.MustCompile(`ValidatingAdmissionPolicy '[^']*' with binding '([^']*)'`)

// ReadRefusal finds out what a message of somebody who failed to create a pod says.
func ReadRefusal(message string) (Refusal, bool) {
	for _, r := range refusers {
		m := r.phrase.FindStringSubmatch(message)
		if m == nil {
			continue
		}
		out := Refusal{By: r.by, Name: m[1], Text: strings.TrimSpace(m[2])}
		if b := policyBinding.FindStringSubmatch(message); b != nil && r.by == ByPolicy {
			out.Binding = b[1]
		}
		if out.Text == "" {
			out.Text = strings.TrimSpace(m[0])
		}
		return out, true
	}
	return Refusal{}, false
}

// lateness is by how much an event of success has to be younger than a failure to say that the failure is over: pods of
// one batch are made side by side.
const lateness = 5 * time.Second

// Denial is the last refusal to create a pod like the one of the case, nil where there was none, the pod exists, or
// its owner has made others since. Of a pod that exists and waits for claims that are made for it, it is the last refusal to create
// one of those. It holds after edits too: who goes by it has to look at what it names.
func Denial(c *check.Case) *Refusal {
	if c.State == facts.Pending {
		return claimDenial(c)
	}
	if c.State != facts.Absent {
		return nil
	}
	var last *Refusal
	var made time.Time
	note := func(message string, at time.Time, e facts.Evidence) {
		if r, ok := ReadRefusal(message); ok && (last == nil || at.After(last.At)) {
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
		for _, s := range Failures(m) {
			note(s.Message, s.LastTransitionTime.Time, facts.Evidence{Object: r.In(), Field: "status.conditions[ReplicaFailure]", Value: s.Message})
		}
	}
	if last != nil && made.After(last.At.Add(lateness)) {
		return nil
	}
	return last
}

// claimDenial is the last refusal to create a claim that is made for the pod: of devices from a template, or of an ephemeral volume.
// Claims that the pod has got by now are not among them: while one is missing, the controller that makes them tries again and again.
func claimDenial(c *check.Case) *Refusal {
	var reasons []string
	if slices.ContainsFunc(c.Pod.Spec.ResourceClaims, func(k corev1.PodResourceClaim) bool { return LacksClaim(c.Pod, &k) }) {
		reasons = append(reasons, "FailedResourceClaimCreation")
	}
	if slices.ContainsFunc(c.Pod.Spec.Volumes, func(v corev1.Volume) bool { return lacksVolume(c.Facts, c.Pod, &v) }) {
		reasons = append(reasons, "FailedBinding")
	}
	var last *Refusal
	if len(reasons) == 0 {
		return nil
	}
	for _, e := range c.EventsOf(c.Pod, reasons...) {
		if r, ok := ReadRefusal(e.Message); ok && (last == nil || facts.EventTime(e).After(last.At)) {
			r.At, r.Evidence = facts.EventTime(e), Shown(e)
			last = &r
		}
	}
	return last
}

// lacksVolume says whether the volume's claim is made for the pod, and was not.
func lacksVolume(f *facts.Facts, p *corev1.Pod, v *corev1.Volume) bool {
	return v.Ephemeral != nil && !slices.ContainsFunc(f.PersistentVolumeClaims, func(k *corev1.PersistentVolumeClaim) bool {
		return k.Namespace == p.Namespace && k.Name == p.Name+"-"+v.Name
	})
}

// LacksClaim says whether the claim is to be made from a template, and was not.
func LacksClaim(p *corev1.Pod, k *corev1.PodResourceClaim) bool {
	return k.ResourceClaimTemplateName != nil && !slices.ContainsFunc(p.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == k.Name })
}

// Failures are the conditions with which an owner says that it cannot make pods.
func Failures(m facts.Object) []appsv1.ReplicaSetCondition {
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
	case *unstructured.Unstructured:
		for _, s := range facts.Refusing(m) {
			out = append(out, appsv1.ReplicaSetCondition{Message: s.Message, LastTransitionTime: metav1.NewTime(s.Since)})
		}
	}
	return out
}

// DeniedBy is denial, where it is by this.
func DeniedBy(c *check.Case, by refuser) *Refusal {
	if r := Denial(c); r != nil && r.By == by {
		return r
	}
	return nil
}

// bindingRejected is how kube-scheduler says that the API server does not take a pod's binding.
const bindingRejected = "binding rejected: running Bind plugin"

// notBound is what the API server said to the scheduler that tried to bind the pod. Berth, which tries again or lets nodes
// be for a while, writes it as data; what kube-scheduler says of it is the condition's message. final says that this binding
// is not tried again.
func notBound(p *corev1.Pod, s *corev1.PodCondition) (words []string, final bool) {
	if said, ok := report.PendingOf(p); ok {
		if b := said.Binding; b != nil {
			return []string{b.Error}, b.State == report.BindingRefused
		}
		return said.Refusals, true
	}
	if strings.HasPrefix(s.Message, bindingRejected) {
		return []string{s.Message}, false
	}
	return nil, false
}

// NotBound is the API server's refusal to bind the pod to a node that the scheduler found, as the scheduler passes it on,
// where it is by one of these; nil for a pod that has not come so far.
func NotBound(c *check.Case, by ...refuser) *Refusal {
	if c.State != facts.Pending {
		return nil
	}
	for _, s := range c.Pod.Status.Conditions {
		if s.Type != corev1.PodScheduled || s.Status != corev1.ConditionFalse {
			continue
		}
		words, final := notBound(c.Pod, &s)
		for _, text := range words {
			r, ok := ReadRefusal(text)
			if final && r.By == ByBrokenWebhook { // it is not tried again: the fault is over, and the scheduler has other nodes
				continue
			}
			if ok && slices.Contains(by, r.By) {
				r.At = s.LastTransitionTime.Time
				r.Evidence = facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "status.conditions[PodScheduled]", Value: s.Reason + ": " + s.Message}
				return &r
			}
		}
	}
	return nil
}

// waitsForLeader is how a webhook says that it lets no pod in before another one of the same work has its node (JobSet's
// exclusive placement: pkg/webhooks/pod_admission_webhook.go).
var waitsForLeader = regexp.MustCompile(`(?i)\bpods? (?:is |was |has )?not (?:yet )?(?:been )?scheduled|expected, transient error`)

// FollowsAnother says whether the refusal only has the pod wait for one of the same work that waits for a node itself: why that one
// does is the cause.
func FollowsAnother(c *check.Case, r *Refusal) bool {
	return r.By == ByWebhook && waitsForLeader.MatchString(r.Text) && slices.ContainsFunc(c.All, func(p *corev1.Pod) bool {
		return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !facts.Ended(p)
	})
}

// Wanted says whether the pod of the case is to be made now. What other projects' kinds want is theirs to say: that
// they tried shows it.
func Wanted(c *check.Case) bool {
	if c.State != facts.Absent {
		return false
	}
	_, foreign := c.Owner().(*unstructured.Unstructured)
	return c.Like > 0 || foreign && Denial(c) != nil
}
