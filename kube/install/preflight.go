package install

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/scheduler"
)

// Level is how much a finding matters.
type Level string

// The levels: nothing is to be done, it works with less, it does not work.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is what was found of one thing.
type Finding struct {
	Level Level
	What  string // "version", "rights"
	Text  string
}

const (
	// oldest is the first minor version of Kubernetes 1 with what Berth cannot do without: ValidatingAdmissionPolicy v1.
	oldest = 30
	// oldestPlayed and newestPlayed are the first and the last on which Berth is tested (docs/versions.md).
	oldestPlayed, newestPlayed = 35, 37
)

// Preflight looks whether the cluster can take the objects, and what Berth would meet there. It writes nothing: each
// object is applied in dry run, which asks the API server for everything that it would ask for: rights, escalation,
// schema, policies of others. An error means that it could not look.
func Preflight(ctx context.Context, client kubernetes.Interface, list []Object) ([]Finding, error) {
	var out []Finding
	for _, check := range []func(context.Context, kubernetes.Interface) ([]Finding, error){
		checkVersion, checkGates, checkEmbedded, checkOthers,
	} {
		found, err := check(ctx, client)
		if err != nil {
			return out, err
		}
		out = append(out, found...)
	}
	rest := client.Discovery().RESTClient()
	rights, err := checkRights(ctx, rest, list)
	return append(out, rights...), err
}

func checkVersion(_ context.Context, client kubernetes.Interface) ([]Finding, error) {
	v, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	switch {
	case err != nil || v.Major != "1":
		return []Finding{{Warn, "version", fmt.Sprintf("the API server says that it is %q, which Berth does not know", v.GitVersion)}}, nil
	case minor < oldest:
		return []Finding{{Fail, "version", fmt.Sprintf("Kubernetes %s has no ValidatingAdmissionPolicy v1: Berth needs 1.%d", v.GitVersion, oldest)}}, nil
	case minor < oldestPlayed || minor > newestPlayed:
		return []Finding{{Warn, "version", fmt.Sprintf("Berth is not tested on Kubernetes %s: it is on 1.%d to 1.%d", v.GitVersion, oldestPlayed, newestPlayed)}}, nil
	}
	return []Finding{{OK, "version", "Kubernetes " + v.GitVersion}}, nil
}

// checkGates says what Berth does without where the cluster does not serve a kind.
func checkGates(_ context.Context, client kubernetes.Interface) (out []Finding, err error) {
	for _, k := range []struct{ group, kind, without string }{
		{"admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", noMutation},
		{"scheduling.k8s.io/v1beta1", "PodGroup", "this Kubernetes serves no scheduling.k8s.io/v1beta1 PodGroup: gangs are named by berth.dev keys, and by kinds of other projects"},
		{"resource.k8s.io/v1", "DeviceClass", "this Kubernetes serves no resource.k8s.io/v1 DeviceClass (1.34 does): GPUs are those of device plugins, and pods with claims of devices wait"},
	} {
		list, err := client.Discovery().ServerResourcesForGroupVersion(k.group)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("ask the API server for %s: %w", k.group, err)
		}
		found := Finding{Warn, "gates", k.without}
		if list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == k.kind }) {
			found = Finding{OK, "gates", k.kind + " is served"}
		}
		out = append(out, found)
	}
	return out, nil
}

// checkEmbedded looks whether a scheduler that is not installed answers already: that of `berth up`.
func checkEmbedded(ctx context.Context, client kubernetes.Interface) ([]Finding, error) {
	_, err := client.CoreV1().Services(answer.ServiceNamespace).Get(ctx, answer.LocalService, metav1.GetOptions{})
	switch {
	case err == nil:
		return []Finding{{Fail, "schedulers", "this is a cluster of `berth up`, which runs a scheduler of its own: start it with --without-scheduler"}}, nil
	case apierrors.IsNotFound(err):
		return nil, nil
	}
	return nil, fmt.Errorf("read service %s: %w", answer.LocalService, err)
}

// page is how many pods are read at a time, and mostPods how many at all.
const (
	page     = 500
	mostPods = 100_000
)

// checkOthers names the schedulers whose pods hold GPUs: where two place onto the same nodes, the kubelet refuses the
// later pod.
func checkOthers(ctx context.Context, client kubernetes.Interface) ([]Finding, error) {
	counts, read, more := make(map[string]int), 0, ""
	for read < mostPods {
		list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: page, Continue: more})
		if err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		for i := range list.Items {
			if p := &list.Items[i]; p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && wantsGPU(&p.Spec) {
				counts[p.Spec.SchedulerName]++
			}
		}
		if read, more = read+len(list.Items), list.Continue; more == "" {
			break
		}
	}
	delete(counts, scheduler.DefaultName)
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Finding{Warn, "schedulers", fmt.Sprintf("%d pods of scheduler %q hold GPUs: give it and Berth nodes of their own, by taints or labels; "+
			"on shared nodes the kubelet refuses the later of two pods", counts[name], name)})
	}
	if len(out) == 0 {
		out = []Finding{{OK, "schedulers", "no other scheduler's pods hold GPUs"}}
	}
	return out, nil
}

func wantsGPU(s *corev1.PodSpec) bool {
	return slices.ContainsFunc(s.Containers, func(c corev1.Container) bool {
		q := c.Resources.Requests[cluster.DefaultGPU]
		return !q.IsZero()
	})
}

// checkRights applies all in dry run. What is refused is all said, so that rights need not be found out one at a time.
func checkRights(ctx context.Context, client rest.Interface, list []Object) ([]Finding, error) {
	var out []Finding
	applied := 0
	for _, o := range list {
		r, err := applyOne(ctx, client, o, true)
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
			out = append(out, Finding{Fail, "rights", err.Error()})
		case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
			out = append(out, Finding{Fail, "objects", err.Error()})
		case err != nil:
			return out, err
		case r.Did != "skipped":
			applied++
		}
	}
	if len(out) == 0 {
		out = []Finding{{OK, "rights", fmt.Sprintf("the API server would take all %d objects", applied)}}
	}
	return out, nil
}
