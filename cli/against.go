package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/submit"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/fleet"
	"github.com/berth-dev/berth/fleet/file"
	kubecluster "github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/devices"
	"github.com/berth-dev/berth/kube/dialect/all"
	"github.com/berth-dev/berth/kube/scheduler"
)

// against is what manifests are planned against: a cluster, a bundle, or a fleet that need not exist.
type against struct {
	reading
	fleet    string
	dialects []string // of the fleet
	space    string
}

func (a *against) flags(cmd *cobra.Command) {
	a.reading.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&a.fleet, "fleet", "", "plan against a `FLEET` that need not run: preset ("+presetNames()+") or fleet file")
	f.StringSliceVar(&a.dialects, "dialect", nil, "with --fleet: plan manifests of another scheduler as berth up --dialect does: "+strings.Join(all.Names(), ", "))
	f.StringVarP(&a.space, "namespace", "n", "", "namespace of objects that name none (default: the kubeconfig's)")
	for _, other := range []string{"from", "name", "kubeconfig", "context"} {
		cmd.MarkFlagsMutuallyExclusive("fleet", other)
	}
	cmd.RegisterFlagCompletionFunc("fleet", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return strings.Split(presetNames(), ", "), cobra.ShellCompDirectiveDefault
	})
}

// live says whether there is an API server to ask.
func (a *against) live() bool { return a.fleet == "" && a.from == "" }

// namespace is the one of objects that name none.
func (a *against) defaultNamespace() string {
	switch {
	case a.space != "":
		return a.space
	case a.fleet != "":
		return metav1.NamespaceDefault
	}
	return a.namespace()
}

// complete completes a word by names in what is planned against; number says that =N follows.
func (a *against) complete(s Streams, number bool, names func(submit.World) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		a.named = cmd.Flags().Changed("name") // nothing ran before that would have set it
		ctx, cancel := context.WithTimeout(cmd.Context(), completeFor)
		defer cancel()
		world, err := a.world(ctx, s)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := names(world)
		found = matching(found[:min(len(found), mostNames)], begun)
		if !number {
			return found, cobra.ShellCompDirectiveNoFileComp
		}
		for i := range found {
			found[i] += "="
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// world reads what is planned against. An error of the fleet file is wrong usage; others mean that nobody could look.
func (a *against) world(ctx context.Context, s Streams) (submit.World, error) {
	if a.fleet != "" {
		pools, err := file.Load(a.fleet)
		if err != nil {
			return submit.World{}, err
		}
		booted, err := fleet.Boot(pools, time.Now().UTC().Truncate(time.Second))
		if err != nil {
			return submit.World{}, failed(err)
		}
		w := submit.World{
			Facts: fleetFacts(booted, time.Now().UTC().Truncate(time.Second)), Against: "fleet", Bare: true,
			Assumes: []string{"all nodes of fleet " + a.fleet + " are up, and nothing runs on them"},
		}
		answerTo(&w, fleet.SchedulersOf(pools))
		for _, name := range a.dialects {
			if err := speak(&w, name); err != nil {
				return submit.World{}, err
			}
		}
		return w, nil
	}
	if len(a.dialects) > 0 {
		return submit.World{}, errors.New("--dialect is for --fleet: which dialects a cluster speaks, it says itself")
	}
	f, err := a.facts(ctx, s, facts.Ref{Namespace: a.defaultNamespace()})
	if err != nil {
		return submit.World{}, exitError{code: exitUnknown, err: err}
	}
	w := submit.World{Facts: f, Against: "cluster", Model: kubecluster.ModelOptions{For: f.ServedBy(scheduler.DefaultName)}}
	if a.from != "" {
		w.Against = "bundle"
	}
	asker, err := a.asker()
	if err != nil {
		return submit.World{}, exitError{code: exitUnknown, err: err}
	}
	config, err := configuration(ctx, asker, a.defaultNamespace())
	switch {
	case err == nil:
		w.Model = kubecluster.ModelOptions{Engine: config.Engine, For: config.SchedulerNames}
		if w.Model.Engine.Levels == nil {
			w.Model.Engine.Levels = []engine.Level{} // it has none, which is not the default
		}
		f.Speaks = spokenBy(f, config.SchedulerNames)
	case len(f.Foreign["BerthQueue.berth.dev"]) > 0:
		w.Assumes = append(w.Assumes, "Berth's scheduler has its default configuration: "+asker.unreached(err))
	}
	return w, nil
}

// spokenBy are the dialects that a scheduler speaks which answers the names: those with one of them, and those whose users keep the name
// that they have, where their objects are.
func spokenBy(f *facts.Facts, names []string) (out []string) {
	for _, d := range all.Dialects() {
		own := d.SchedulerNames()
		if slices.ContainsFunc(own, func(n string) bool { return slices.Contains(names, n) }) || len(own) == 0 && len(f.Foreign[d.Kinds()[0].Name()]) > 0 {
			out = append(out, d.Name())
		}
	}
	return out
}

// speak has the world as berth up --dialect makes it: with the objects that the dialect installs, and its scheduler names answered.
func speak(w *submit.World, name string) error {
	d := all.Find(name)
	if d == nil {
		return fmt.Errorf("--dialect %q: choose %s", name, strings.Join(all.Names(), ", "))
	}
	names := d.SchedulerNames()
	if len(names) == 0 { // its users keep the name that they have
		names = []string{corev1.DefaultSchedulerName}
	}
	w.Facts.Speaks = append(w.Facts.Speaks, name)
	w.Model.Dialects = append(w.Model.Dialects, name)
	answerTo(w, names)
	for i, text := range d.Install().Objects {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			return fmt.Errorf("dialect %s: %w", name, err)
		}
		k := facts.KindOf(u.GroupVersionKind().Group, u.GetKind())
		if k == nil { // admission policies
			continue
		}
		u.SetUID(types.UID(fmt.Sprintf("%s-%d", name, i)))
		if k.Foreign {
			k.Add(&w.Facts.Objects, u)
			continue
		}
		o := k.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
			return fmt.Errorf("dialect %s: %w", name, err)
		}
		k.Add(&w.Facts.Objects, o)
	}
	return nil
}

// answerTo has Berth answer the scheduler names beside its own.
func answerTo(w *submit.World, names []string) {
	if len(names) == 0 {
		return
	}
	if w.Model.For == nil {
		w.Model.For = []string{scheduler.DefaultName}
	}
	w.Model.For = append(w.Model.For, names...)
	w.Facts.Answers = w.Model.For
	for _, n := range names {
		w.Facts.Leases = append(w.Facts.Leases, leaseOf(n, w.Facts.At))
	}
}

// leaseOf is the lease of a scheduler that runs.
func leaseOf(name string, at time.Time) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name, UID: types.UID("lease-" + name)}}
	l.Spec.RenewTime = &metav1.MicroTime{Time: at}
	return l
}

// fleetFacts is a cluster of the nodes alone.
func fleetFacts(b fleet.Booted, at time.Time) *facts.Facts {
	f := &facts.Facts{At: at, Kubernetes: "v1.37.1", Matches: devices.NewMatcher(), NewAllocator: devices.NewAllocator()}
	f.Nodes, f.ResourceSlices, f.DeviceClasses, f.StorageClasses = b.Nodes, b.ResourceSlices, b.DeviceClasses, b.StorageClasses
	for _, name := range []string{scheduler.DefaultName, "kube-scheduler"} {
		f.Leases = append(f.Leases, leaseOf(name, at))
	}
	for name, value := range map[string]int32{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000} {
		f.PriorityClasses = append(f.PriorityClasses, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Value: value})
	}
	f.Namespaces = []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault, UID: "default"}}}
	return f
}

var errNoManifests = errors.New("give manifests with -f FILE, -f FOLDER or -f - for standard input")
