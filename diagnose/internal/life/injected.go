package life

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// injectors are containers that admission webhooks of other projects add to pods, and how the keys of the annotations begin that they leave
// there. Templates may have a container of such a name too, to change how it is added.
var injectors = []struct {
	mark, whose string
	names       []string
}{
	{"sidecar.istio.io/", "Istio", []string{"istio-init", "istio-validation", "istio-proxy", "enable-core-dump"}},
	{"linkerd.io/", "Linkerd", []string{"linkerd-init", "linkerd-network-validator", "linkerd-proxy"}},
	{"vault.hashicorp.com/", "Vault", []string{"vault-agent-init", "vault-agent"}},
	{"consul.hashicorp.com/", "Consul", []string{"consul-connect-inject-init", "consul-dataplane"}},
	{"dapr.io/", "Dapr", []string{"daprd"}},
	{"gke-gcsfuse/", "Cloud Storage FUSE", []string{"gke-gcsfuse-sidecar", "gke-gcsfuse-metadata-prefetch"}},
	{"kuma.io/", "Kuma", []string{"kuma-init", "kuma-sidecar", "kuma-validation"}},
}

// Injected says who adds the container to the pod, and what shows it; "": its author wrote it, or nobody can tell. A container that the
// template of the pod's maker does not have is added by somebody.
func Injected(c *check.Case, k *Container) (who string, shown facts.Evidence) {
	p := c.Pod
	for _, row := range injectors {
		if !slices.Contains(row.names, k.Name) {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
			if strings.HasPrefix(key, row.mark) {
				return row.whose, facts.Evidence{Object: facts.RefTo(p).In(), Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: p.Annotations[key]}
			}
		}
	}
	m := c.Controller(p)
	if m == nil || c.WasEdited(p) || c.WasEdited(m) || p.CreationTimestamp.Time.Before(m.GetCreationTimestamp().Time) {
		return "", facts.Evidence{}
	}
	t := facts.TemplateOf(m)
	if t == nil || len(t.Spec.Containers) == 0 {
		return "", facts.Evidence{}
	}
	in := func(list []corev1.Container, name string) bool {
		return slices.ContainsFunc(list, func(o corev1.Container) bool { return o.Name == name })
	}
	kept := slices.ContainsFunc(p.Spec.Containers, func(o corev1.Container) bool { return in(t.Spec.Containers, o.Name) })
	if all := slices.Concat(t.Spec.InitContainers, t.Spec.Containers); !kept || in(all, k.Name) {
		return "", facts.Evidence{} // a pod that has nothing of the template is of an earlier one
	}
	return "something", facts.Evidence{Object: facts.RefTo(m).In(), Field: "spec.template.spec.containers", Value: "without " + k.Name}
}

// BlameInjector has whoever adds the container act, where that is not the pod's author: what the author writes changes nothing.
func BlameInjector(c *check.Case, k *Container, f *check.Finding) {
	who, shown := Injected(c, k)
	if who == "" || f.Layer == check.L2 {
		return
	}
	f.Owner, f.Edits, f.Advice = check.Platform, nil, fmt.Sprintf("Have whoever adds %s to pods correct it: it is not in what the pod's author wrote.", k.Noun())
	f.Message += fmt.Sprintf("; %s adds this container to the pod", who)
	f.Evidence = append(f.Evidence, shown)
}
