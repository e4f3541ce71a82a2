package l3

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var schedulerErrorCheck = check.Check{
	Cause: "scheduler-error", Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 31,
	Title:   "The scheduler met an error of its own",
	Meaning: "The scheduler did not come to a decision about the pod: a plugin, an extender or a call to the API server failed.",
	Remedy:  "Look at the scheduler and what it calls; it tries again by itself.",
	Not:     "There is no room: nobody has found out.",
	Find:    schedulerError,
}

// refusedBeforeDevices is what the stock scheduler of Kubernetes 1.37 writes over its own reason where a plugin refuses a pod of
// a PodGroup before the plugin for devices has looked at it: afterwards that plugin looks for notes that it never made
// (DynamicResources.PodGroupPostFilter). It says that there is a reason, and not which.
const refusedBeforeDevices = `error in "DynamicResources" PodGroupPostFilter plugins: not found`

// ofClaims are errors of the plugins that wait for volumes and devices: why those do not come is the cause, where it is known.
var ofClaims = regexp.MustCompile(`plugin "?(?:VolumeBinding|DynamicResources)\b`)

func schedulerError(c *check.Case) []check.Finding {
	if c.State != facts.Pending || life.NotBound(c, life.ByBrokenWebhook, life.ByWebhook, life.ByPolicy) != nil {
		return nil // or it says whose error it is
	}
	for _, s := range c.Pod.Status.Conditions {
		if s.Type == corev1.PodScheduled && s.Status == corev1.ConditionFalse && s.Reason == corev1.PodReasonSchedulerError && s.Message != refusedBeforeDevices {
			return []check.Finding{{
				Last:     ofClaims.MatchString(s.Message),
				Message:  fmt.Sprintf("scheduler %s failed at pod %s: %s", c.Pod.Spec.SchedulerName, c.Pod.Name, wording.Shortened(wording.OneLine(s.Message), 400)),
				Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "status.conditions[PodScheduled]", Value: s.Reason + ": " + s.Message}},
			}}
		}
	}
	return nil
}
