package rule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

var cannotMeet = Rule{
	Code: "B107", Name: "workers-cannot-meet",
	Title: "Workers that cannot meet",
	Why:   "Workers of one training wait for each other. Where fewer pods come than the gang's minimum, or they look for their first one under a name that no pod has, all of them wait, with their GPUs, until a time-out.",
	find:  findCannotMeet,
}

func findCannotMeet(c *Case) (out []Finding) {
	out = append(c.tooFew(), c.tooFewForItsOperator()...)
	c.containers(func(p *workload.Part, pod *corev1.Pod, k *corev1.Container, path string) {
		for i, e := range k.Env {
			if e.Name != "MASTER_ADDR" && e.Name != "PET_MASTER_ADDR" && e.Name != "RDZV_ENDPOINT" && e.Name != "PET_RDZV_ENDPOINT" {
				continue
			}
			if wrong := c.noSuchHost(p, pod, e.Value); wrong != "" {
				out = append(out, Finding{Path: fmt.Sprintf("%s/env/%d", path, i), Message: fmt.Sprintf("%s of container %s is %s, %s", e.Name, k.Name, e.Value, wrong)})
			}
		}
		out = append(out, c.flags(p, pod, k, path, "command", k.Command)...)
		out = append(out, c.flags(p, pod, k, path, "args", k.Args)...)
		out = append(out, c.crowd(k, path)...)
	})
	return out
}

// flags looks for an address at which workers meet among the words of a command line.
func (c *Case) flags(p *workload.Part, pod *corev1.Pod, k *corev1.Container, path, field string, words []string) (out []Finding) {
	eachFlag(words, func(i int, name, value string) {
		if name != "master_addr" && name != "rdzv_endpoint" {
			return
		}
		if wrong := c.noSuchHost(p, pod, value); wrong != "" {
			out = append(out, Finding{Path: fmt.Sprintf("%s/%s/%d", path, field, i), Message: fmt.Sprintf("--%s of container %s is %s, %s", name, k.Name, value, wrong)})
		}
	})
	return out
}

// eachFlag calls for each --flag of a command line, which may be the script of a shell, with the index of the word that it is
// in. Names have underscores.
func eachFlag(words []string, do func(i int, name, value string)) {
	for i, word := range words {
		inside := strings.Fields(word)
		for j, w := range inside {
			flag, ok := strings.CutPrefix(w, "--")
			name, value, given := strings.Cut(flag, "=")
			switch {
			case !ok:
				continue
			case given:
			case j+1 < len(inside):
				value = inside[j+1]
			case i+1 < len(words):
				value = words[i+1]
			}
			do(i, strings.ReplaceAll(name, "-", "_"), strings.Trim(value, `"'`))
		}
	}
}

// crowd compares the nodes and ranks that a program is told of with the pods of all parts together. Of Kubernetes' own kinds a
// diagnosis does.
func (c *Case) crowd(k *corev1.Container, path string) (out []Finding) {
	if _, foreign := c.Workload.Object.(*unstructured.Unstructured); !foreign {
		return nil
	}
	pods, gpus := 0, int64(0)
	for i := range c.Workload.Parts {
		p := &c.Workload.Parts[i]
		pods += p.Wanted
		if len(p.Pods) > 0 {
			_, n := podspec.Device(p.Pods[0])
			gpus += int64(p.Wanted) * max(1, n)
		}
	}
	eachFlag(slices.Concat(k.Command, k.Args), func(_ int, name, value string) {
		least, _, _ := strings.Cut(value, ":") // of torchrun's MIN:MAX
		if n, err := strconv.Atoi(least); err == nil && n > pods && (name == "nnodes" || name == "num_nodes" || name == "num_machines") {
			out = append(out, Finding{Path: path, Message: fmt.Sprintf("container %s is told of %d nodes (--%s), and there will be %d pods", k.Name, n, name, pods)})
		}
	})
	for i, e := range k.Env {
		if n, err := strconv.ParseInt(e.Value, 10, 64); err == nil && e.Name == "WORLD_SIZE" && n > gpus {
			out = append(out, Finding{Path: fmt.Sprintf("%s/env/%d", path, i), Message: fmt.Sprintf("container %s waits for %d ranks (WORLD_SIZE), and there will be %d at most", k.Name, n, gpus)})
		}
	}
	return out
}

// tooFewForItsOperator compares the minimum that an operator's object asks for with its pods.
func (c *Case) tooFewForItsOperator() []Finding {
	if _, foreign := c.Workload.Object.(*unstructured.Unstructured); !foreign || c.Workload.Idle != "" {
		return nil
	}
	pods := 0
	for i := range c.Workload.Parts {
		pods += c.Workload.Parts[i].Wanted
	}
	for _, at := range [][]string{{"spec", "minAvailable"}, {"spec", "runPolicy", "schedulingPolicy", "minAvailable"}} {
		value, _, _ := unstructured.NestedFieldNoCopy(c.Object, at...)
		n, ok := value.(int64)
		if f, float := value.(float64); float {
			n, ok = int64(f), true
		}
		if ok && n > int64(pods) {
			return []Finding{{Path: edit.Pointer(at...), Message: fmt.Sprintf("%s is %d, and there will be %d pods", strings.Join(at, "."), n, pods)}}
		}
	}
	return nil
}

// tooFew compares the minimum of gangs with the pods that there will be.
func (c *Case) tooFew() (out []Finding) {
	count, first := make(map[string]int), make(map[string]*corev1.Pod)
	var order []string
	for i := range c.Workload.Parts {
		p := &c.Workload.Parts[i]
		for _, pod := range p.Pods {
			gang := c.GangOf(pod)
			if first[gang] == nil && gang != "" {
				first[gang] = pod
				order = append(order, gang)
			}
			count[gang]++
		}
	}
	for _, gang := range order {
		pod := first[gang]
		there, coming, _ := c.GangMembers(gang)
		members := max(count[gang], len(there)+coming)
		if g := c.PodGroup(pod); g != nil && g.Spec.SchedulingPolicy.Gang != nil && int(g.Spec.SchedulingPolicy.Gang.MinCount) > members {
			out = append(out, Finding{Path: "/spec", Message: fmt.Sprintf("PodGroup %s needs %d pods at once, and %d will name it", g.Name, g.Spec.SchedulingPolicy.Gang.MinCount, members)})
			continue
		}
		for _, key := range []string{v1alpha1.KeyMin, v1alpha1.KeySize} {
			value, _ := c.Inherited(pod, key)
			if n, err := strconv.Atoi(value); err == nil && n > members {
				out = append(out, Finding{Path: "/metadata", Message: fmt.Sprintf("%s says that %s has %d members (%s), and %d will exist", key[strings.IndexByte(key, '/')+1:], c.GangName(pod), n, key, members)})
				break
			}
		}
	}
	return out
}

// noSuchHost says what is wrong with an address at which workers are to meet, where it names a pod of the workload by DNS;
// "": nothing that can be told.
func (c *Case) noSuchHost(p *workload.Part, pod *corev1.Pod, address string) string {
	host, _, _ := strings.Cut(address, ":")
	labels := strings.Split(host, ".")
	var base, service string
	indexed := true
	switch m := p.Maker.(type) {
	case *batchv1.Job:
		if p.Above != nil {
			return ""
		}
		base, service = m.Name, pod.Spec.Subdomain
		indexed = ptr.Deref(m.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
	case *appsv1.StatefulSet:
		base, service = m.Name, m.Spec.ServiceName
	default:
		return ""
	}
	ordinal, numbered := strings.CutPrefix(labels[0], base+"-")
	n, err := strconv.Atoi(ordinal)
	stem := labels[0][:strings.LastIndexByte(labels[0], '-')+1]
	_, digits := strconv.Atoi(strings.TrimPrefix(labels[0], stem))
	switch {
	case strings.ContainsAny(host, "$()") || host == "" || host == "localhost" || len(labels) > 1 && digits != nil, strings.Trim(host, "0123456789.") == "":
		return "" // a variable, a service, or an address: not the name of a pod
	case !indexed && numbered && err == nil:
		return "and its pods have no such names: completionMode is not Indexed"
	case !indexed:
		return ""
	case numbered && err == nil && n >= p.Wanted:
		return fmt.Sprintf("and the pods are %s-0 to %s-%d", base, base, p.Wanted-1)
	case numbered && err == nil && service == "":
		return "and its pods have no DNS names: they name no service (subdomain)"
	case numbered && err == nil && len(labels) > 1 && labels[1] != service:
		return fmt.Sprintf("and the pods are in the service %s", service)
	case !numbered && len(labels) > 1 && digits == nil && stem != "":
		return fmt.Sprintf("and the pods are called %s-0 and so on", base)
	}
	return ""
}
