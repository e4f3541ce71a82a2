package l4

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

var scaledToZeroCheck = check.Check{
	Cause: "scaled-to-zero", Layer: check.L4, Owner: check.User, Stage: check.Create, Rank: 2,
	Title:   "It is scaled to zero",
	Meaning: "The object asks for no pods: its replicas are 0. Nothing is wrong.",
	Remedy:  "Scale it up when it should run.",
	Not:     "The pods were refused or cannot be placed: nobody asked for them.",
	Find:    scaledToZero,
}

func scaledToZero(c *check.Case) []check.Finding {
	if c.State != facts.Absent {
		return nil
	}
	zero := func(o facts.Object, replicas *int32) []check.Finding {
		if ptr.Deref(replicas, 1) != 0 {
			return nil
		}
		r := facts.RefTo(o)
		return []check.Finding{{
			Healthy: true, Message: fmt.Sprintf("%s asks for no pods: its replicas are 0", r),
			Evidence: []facts.Evidence{{Object: r.In(), Field: "spec.replicas", Value: "0"}},
			Advice:   fmt.Sprintf("To run it: kubectl scale %s %s -n %s --replicas=1", strings.ToLower(r.Kind), r.Name, r.Namespace),
		}}
	}
	switch o := c.Top.(type) {
	case *appsv1.Deployment:
		return zero(o, o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return zero(o, o.Spec.Replicas)
	case *appsv1.ReplicaSet:
		return zero(o, o.Spec.Replicas)
	}
	return nil
}
