package rule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

var noCheckpoint = Rule{
	Code: "B105", Name: "long-run-without-checkpoint",
	Title: "A long run that says of no checkpoint",
	Why:   "A node fails or another team reclaims its quota sooner or later. A run of many hours that saves nothing begins again from the start, and Berth, which prefers victims that lose little, cannot tell how little this one would lose.",
	find:  findNoCheckpoint,
}

// longRun is from when on a run should save its work.
const longRun = 4 * time.Hour

func findNoCheckpoint(c *Case) (out []Finding) {
	c.each(func(p *workload.Part, pod *corev1.Pod) {
		if gpus(pod) == 0 {
			return
		}
		if value, _ := c.Inherited(pod, v1alpha1.KeyCheckpoint); value != "" {
			return
		}
		if saves(pod) {
			return
		}
		run, says := c.runTime(p, pod)
		if run < longRun || c.mayBeEvicted(pod) == "" {
			return
		}
		out = append(out, Finding{
			Path: "/metadata", Message: fmt.Sprintf("it is to run for %s (%s), may be evicted, and does not say that it saves its work (%s)", run, says, v1alpha1.KeyCheckpoint),
			Advice: "Save checkpoints, and say how often in the annotation " + v1alpha1.KeyCheckpoint + ".",
		})
	})
	return out[:min(1, len(out))]
}

// saves says whether a program of the pod is told of checkpoints, by its arguments or its environment.
func saves(pod *corev1.Pod) bool {
	tells := func(s string) bool {
		s = strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
		return slices.ContainsFunc([]string{"checkpoint", "ckpt", "savesteps", "saveinterval", "saveevery", "savefreq", "resumefrom", "autoresume", "snapshot"}, func(w string) bool { return strings.Contains(s, w) })
	}
	return slices.ContainsFunc(pod.Spec.Containers, func(k corev1.Container) bool {
		return slices.ContainsFunc(slices.Concat(k.Command, k.Args), tells) ||
			slices.ContainsFunc(k.Env, func(e corev1.EnvVar) bool { return tells(e.Name) || tells(e.Value) })
	})
}

// runTime is how long the work is to run, and where it says so; 0: it does not.
func (c *Case) runTime(p *workload.Part, pod *corev1.Pod) (time.Duration, string) {
	for _, key := range []string{v1alpha1.KeyExpectedRun, v1alpha1.KeyMaxRun} {
		value, _ := c.Inherited(pod, key)
		if d, err := time.ParseDuration(value); err == nil {
			return d, key
		}
	}
	if s := pod.Spec.ActiveDeadlineSeconds; s != nil {
		return time.Duration(*s) * time.Second, "activeDeadlineSeconds"
	}
	if j, ok := p.Maker.(*batchv1.Job); ok && j.Spec.ActiveDeadlineSeconds != nil {
		return time.Duration(*j.Spec.ActiveDeadlineSeconds) * time.Second, "activeDeadlineSeconds"
	}
	return 0, ""
}
