package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/kube/dialect"
)

// ProvisioningRequests is the kind by which work asks an autoscaler for machines before it starts.
const ProvisioningRequests = "ProvisioningRequest.autoscaling.x-k8s.io"

// Asked is a case that waits for machines which a ProvisioningRequest asks for.
type Asked struct {
	Work    *unstructured.Unstructured // Kueue's, for which the request was made; nil: the pod names it
	Request *unstructured.Unstructured // nil: there is none of that name
	Named   string                     // by the pod
	Says    string                     // why the request failed, or what Kueue says of it
}

// consumes are the annotations by which a pod names its request.
var consumes = []string{"autoscaling.x-k8s.io/consume-provisioning-request", "cluster-autoscaler.kubernetes.io/consume-provisioning-request"}

// MachinesAsked is what the case asked for; nil where it asked for none, or has them.
func MachinesAsked(c *check.Case) *Asked {
	if v := Kueue(c); v != nil && v.Cause == "capacity-queued" {
		a := &Asked{Work: v.Work, Request: ProvisioningOf(c.Facts, v.Work), Says: v.Message}
		if k := a.failure(); k != nil && k.Message != "" {
			a.Says = k.Message
		}
		return a
	}
	if !c.Waits() {
		return nil
	}
	at := slices.IndexFunc(consumes, func(key string) bool { return c.Pod.Annotations[key] != "" })
	if at < 0 {
		return nil
	}
	a := &Asked{Named: c.Pod.Annotations[consumes[at]]}
	a.Request = c.ForeignNamed(ProvisioningRequests, c.Pod.Namespace, a.Named)
	switch {
	case a.Request == nil && !c.Sees("provisioningrequests.autoscaling.x-k8s.io", c.Pod.Namespace):
		return nil
	case a.Request != nil && dialect.IsTrue(a.Request, "Provisioned") && a.Over() == "":
		return nil
	}
	if k := a.failure(); k != nil {
		a.Says = k.Message
	}
	return a
}

// Key is the annotation by which the pod names its request.
func (a *Asked) Key(c *check.Case) string {
	return consumes[slices.IndexFunc(consumes, func(key string) bool { return c.Pod.Annotations[key] != "" })]
}

// Failed says whether the request was given up.
func (a *Asked) Failed() bool {
	return a.Request == nil && a.Work != nil || a.Request != nil && dialect.IsTrue(a.Request, "Failed")
}

func (a *Asked) failure() *dialect.Condition {
	if a.Request == nil || !dialect.IsTrue(a.Request, "Failed") {
		return nil
	}
	return dialect.ConditionOf(a.Request, "Failed")
}

// Over is the condition by which what was provisioned is not there any more; "" for none.
func (a *Asked) Over() string {
	for _, kind := range []string{"CapacityRevoked", "BookingExpired"} {
		if a.Request != nil && dialect.IsTrue(a.Request, kind) {
			return kind
		}
	}
	return ""
}
