package cli

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/answer"
	kubecluster "github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/scheduler"
)

// diagnoser makes one that starts from what Berth's scheduler itself answers, and tries fixes on a model with the
// scheduler's own configuration. The scheduler is asked about the pods that wait in the namespace, "" for all, or only about
// those of what is asked about; and not at all where none of them is its.
func diagnoser(ctx context.Context, a asker, f *facts.Facts, namespace string, about facts.Ref) *diagnose.Diagnoser {
	names := f.ServedBy(scheduler.DefaultName)
	config, err := configuration(ctx, a, namespace)
	if err == nil {
		names = config.SchedulerNames
	}
	pods := ours(f, names, namespace, about)
	o := kubecluster.ModelOptions{For: names}
	switch {
	case len(pods) == 0:
		if err == nil {
			o.Engine = config.Engine
		}
		f.Served = nil
	case err != nil:
		f.Served = &facts.Served{Scheduler: scheduler.DefaultName, Names: names, Unreached: a.unreached(err)}
	default:
		o.Engine = config.Engine
		f.Served = answersFor(ctx, a, f, pods, config)
	}
	if o.Engine.Levels == nil && f.Served != nil && f.Served.Unreached == "" {
		o.Engine.Levels = []engine.Level{} // it has none, which is not the default
	}
	return diagnose.New(f, kubecluster.NewModel(o))
}

// ours are the pods that wait for Berth's scheduler.
func ours(f *facts.Facts, names []string, namespace string, about facts.Ref) []*corev1.Pod {
	pods := f.Pods
	if about.Name != "" {
		pods = f.PodsOf(about)
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		return p.Spec.NodeName != "" || p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0 ||
			!slices.Contains(names, p.Spec.SchedulerName) || namespace != "" && p.Namespace != namespace
	})
}

// unreached words why the scheduler could not be asked, without names: a bundle says the same later.
func unreached(err error) string {
	if apierrors.IsForbidden(err) {
		return "you may not read configurations." + answer.Group
	}
	return err.Error()
}

// unreached is the same of the moment that is looked at.
func (a asker) unreached(err error) string {
	var h health
	if a.kept != nil && json.Unmarshal(a.kept.Answers[healthPath], &h) == nil && h.Configuration != "" {
		return h.Configuration
	}
	return unreached(err)
}

// servedWithin is how long a diagnosis waits to hear whether the scheduler answers: without it there is still a model.
const servedWithin = 5 * time.Second

// configuration is how the scheduler is set up; who may not ask for the whole cluster asks for the namespace.
func configuration(ctx context.Context, a asker, namespace string) (answer.Configuration, error) {
	ctx, cancel := context.WithTimeout(ctx, servedWithin)
	defer cancel()
	var list answer.ConfigurationList
	err := a.get(ctx, &list, nil, "configurations")
	if apierrors.IsForbidden(err) && namespace != "" {
		err = a.get(ctx, &list, nil, "namespaces", namespace, "configurations")
	}
	if err == nil && len(list.Items) == 0 {
		err = errors.New("the scheduler does not say how it is set up")
	}
	if err != nil {
		return answer.Configuration{}, err
	}
	return list.Items[0], nil
}

// answersFor asks about the workloads of the pods, of which the first mostWhole are asked about. What the scheduler does not
// know, or has no word about, is left out.
func answersFor(ctx context.Context, a asker, f *facts.Facts, pods []*corev1.Pod, config answer.Configuration) *facts.Served {
	out := &facts.Served{Scheduler: config.Name, Names: config.SchedulerNames, Levels: config.Engine.Levels, Workloads: make(map[string]facts.ServedWorkload)}
	asked := make(map[string]bool)
	for _, p := range pods {
		name := f.WorkloadOf(p)
		key := p.Namespace + "/" + name
		if asked[key] || len(asked) >= mostWhole {
			continue
		}
		asked[key] = true
		var w answer.Workload
		err := a.get(ctx, &w, nil, "namespaces", p.Namespace, "workloads", name)
		switch {
		case err == nil && w.Cause != "":
			out.Workloads[key] = servedWorkload(&w)
		case err != nil && !apierrors.IsNotFound(err):
			out.Unreached = a.unreached(err)
			return out
		}
	}
	return out
}

func servedWorkload(w *answer.Workload) facts.ServedWorkload {
	out := facts.ServedWorkload{Sentence: w.Sentence}
	out.Verdict, out.Cause, out.Gates, out.Certificates = w.Verdict, w.Cause, w.Gates, w.Certificates
	switch {
	case w.ETA == nil:
	case !w.ETA.Likely.IsZero():
		out.ETA = &facts.ETA{Earliest: w.ETA.Earliest, Likely: w.ETA.Likely, Because: w.ETA.Because}
	case w.ETA.Cause != "":
		out.ETA = &facts.ETA{Because: "no start is expected while this lasts: " + w.ETA.Because}
	default:
		out.ETA = &facts.ETA{Because: "unknown: " + w.ETA.Because}
	}
	if w.Promise != nil {
		out.ETA = &facts.ETA{Likely: w.Promise.Start, Because: "the scheduler has promised a start by then"}
	}
	return out
}
