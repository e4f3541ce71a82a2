package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/submit"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/fleet"
	"github.com/berth-dev/berth/fleet/file"
	kubecluster "github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/devices"
	"github.com/berth-dev/berth/kube/scheduler"
)

// against is what manifests are planned against: a cluster, a bundle, or a fleet that need not exist.
type against struct {
	reading
	fleet string
	space string
}

func (a *against) flags(cmd *cobra.Command) {
	a.reading.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&a.fleet, "fleet", "", "plan against a `FLEET` that need not run: preset ("+presetNames()+") or fleet file")
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
		return submit.World{
			Facts: fleetFacts(booted, time.Now().UTC().Truncate(time.Second)), Against: "fleet", Bare: true,
			Assumes: []string{"all nodes of fleet " + a.fleet + " are up, and nothing runs on them"},
		}, nil
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
	case len(f.Foreign["BerthQueue.berth.dev"]) > 0:
		w.Assumes = append(w.Assumes, "Berth's scheduler has its default configuration: "+asker.unreached(err))
	}
	return w, nil
}

// fleetFacts is a cluster of the nodes alone.
func fleetFacts(b fleet.Booted, at time.Time) *facts.Facts {
	f := &facts.Facts{At: at, Kubernetes: "v1.37.1", Matches: devices.NewMatcher(), NewAllocator: devices.NewAllocator()}
	f.Nodes, f.ResourceSlices, f.DeviceClasses, f.StorageClasses = b.Nodes, b.ResourceSlices, b.DeviceClasses, b.StorageClasses
	for _, name := range []string{scheduler.DefaultName, "kube-scheduler"} {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID("lease-" + name)}}
		l.Spec.RenewTime = &metav1.MicroTime{Time: at}
		f.Leases = append(f.Leases, l)
	}
	for name, value := range map[string]int32{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000} {
		f.PriorityClasses = append(f.PriorityClasses, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Value: value})
	}
	f.Namespaces = []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault, UID: "default"}}}
	return f
}

var errNoManifests = errors.New("give manifests with -f FILE, -f FOLDER or -f - for standard input")
