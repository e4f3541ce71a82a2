package life

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// injectors are containers that admission webhooks of other projects add to pods, and how the keys of the annotations begin that they leave
// there. Templates may have a container of such a name too, to change how it is added.
var injectors = []struct {
	mark, whose string
	names       []string
	user        bool // it does what the pod's author says in those annotations
}{
	{"sidecar.istio.io/", "Istio", []string{"istio-init", "istio-validation", "istio-proxy", "enable-core-dump"}, false},
	{"linkerd.io/", "Linkerd", []string{"linkerd-init", "linkerd-network-validator", "linkerd-proxy"}, false},
	{"vault.hashicorp.com/", "Vault", []string{"vault-agent-init", "vault-agent"}, false},
	{"consul.hashicorp.com/", "Consul", []string{"consul-connect-inject-init", "consul-dataplane"}, false},
	{"dapr.io/", "Dapr", []string{"daprd"}, false},
	{"gke-gcsfuse/", "Cloud Storage FUSE", []string{"gke-gcsfuse-sidecar", "gke-gcsfuse-metadata-prefetch"}, true},
	{"internal.serving.kserve.io/", "KServe", []string{"storage-initializer"}, true},
	{"kuma.io/", "Kuma", []string{"kuma-init", "kuma-sidecar", "kuma-validation"}, false},
}

// Injected says who adds the container to the pod, and what shows it; "": its author wrote it, or nobody can tell. A container that the
// template of the pod's maker does not have is added by somebody.
func Injected(c *check.Case, k *Container) (who string, owner check.Owner, shown facts.Evidence) {
	p := c.Pod
	for _, row := range injectors {
		if !slices.Contains(row.names, k.Name) {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
			if strings.HasPrefix(key, row.mark) {
				owner := check.Platform
				if row.user {
					owner = check.User
				}
				return row.whose, owner, facts.Evidence{Object: facts.RefTo(p).In(), Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: wording.Shortened(p.Annotations[key], 120)}
			}
		}
	}
	m := c.Controller(p)
	if m == nil || c.WasEdited(p) || c.WasEdited(m) || p.CreationTimestamp.Time.Before(m.GetCreationTimestamp().Time) {
		return "", "", facts.Evidence{}
	}
	t := facts.TemplateFor(m, p)
	if t == nil || len(t.Spec.Containers) == 0 {
		return "", "", facts.Evidence{}
	}
	in := func(list []corev1.Container, name string) bool {
		return slices.ContainsFunc(list, func(o corev1.Container) bool { return o.Name == name })
	}
	kept := slices.ContainsFunc(p.Spec.Containers, func(o corev1.Container) bool { return in(t.Spec.Containers, o.Name) })
	if all := slices.Concat(t.Spec.InitContainers, t.Spec.Containers); !kept || in(all, k.Name) {
		return "", "", facts.Evidence{} // a pod that has nothing of the template is of an earlier one
	}
	return "something", check.Platform, facts.Evidence{Object: facts.RefTo(m).In(), Field: "spec.template.spec.containers", Value: "without " + k.Name}
}

// BlameInjector has whoever adds the container act, where that is not the pod's author: what the author writes changes nothing.
func BlameInjector(c *check.Case, k *Container, f *check.Finding) {
	who, owner, shown := Injected(c, k)
	if who == "" || f.Layer == check.L2 {
		return
	}
	f.Owner, f.Edits, f.Advice = owner, nil, fmt.Sprintf("Have whoever adds %s to pods correct it: it is not in what the pod's author wrote.", k.Noun())
	if owner == check.User {
		f.Advice = "Correct what the annotation asks for, and the rights that it takes."
	}
	f.Message += fmt.Sprintf("; %s adds this container to the pod", who)
	f.Evidence = append(f.Evidence, shown)
}
