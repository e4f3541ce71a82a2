package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Way is a connection that a pod wants to make over TCP.
type Way struct {
	From *corev1.Pod
	To   *corev1.Pod // nil: an address that is no pod's
	Port int32       // 0: not known; the way is open where any port is
	// Any says that the programs agree on ports when they start, as NCCL and Gloo do: the way is open where those are that kernels give
	// out.
	Any bool
}

// Wall is what closes a way: the policies that select the pod at one end, none of which lets it through.
type Wall struct {
	Way
	Pod       *corev1.Pod // that they select
	Direction networkingv1.PolicyType
	Policies  []*networkingv1.NetworkPolicy // by name
	Ports     bool                          // they let the two talk, on other ports
}

// The ports that Linux gives out by default (net.ipv4.ip_local_port_range).
const firstGiven, lastGiven = 32768, 60999

// Closed is the wall across the way; nil: none is known.
func Closed(f *facts.Facts, w Way) *Wall {
	if otherRules(f) {
		return nil
	}
	if b := closed(f, w, w.From, networkingv1.PolicyTypeEgress); b != nil || w.To == nil {
		return b
	}
	return closed(f, w, w.To, networkingv1.PolicyTypeIngress)
}

// ClosedToDNS is the wall between the pod and the cluster's DNS; nil: none is known.
func ClosedToDNS(f *facts.Facts, p *corev1.Pod) *Wall {
	policies := selecting(f, p, networkingv1.PolicyTypeEgress)
	if len(policies) == 0 || otherRules(f) {
		return nil
	}
	for _, n := range policies {
		for _, r := range n.Spec.Egress {
			if portsOpen(r.Ports, func(port *networkingv1.NetworkPolicyPort) bool { return isDNS(port) }) && (len(r.To) == 0 || slices.ContainsFunc(r.To, func(peer networkingv1.NetworkPolicyPeer) bool { return mayBeDNS(f, n, peer) })) {
				return nil
			}
		}
	}
	return &Wall{Way: Way{From: p}, Pod: p, Direction: networkingv1.PolicyTypeEgress, Policies: policies}
}

// otherRules says whether kinds of other projects, or of later Kubernetes, decide about connections too. Their rules are not known here, and
// some of them open what others close.
func otherRules(f *facts.Facts) bool {
	for kind, all := range f.Foreign {
		name, group, _ := strings.Cut(kind, ".")
		if len(all) > 0 && strings.Contains(name, "NetworkPolicy") && group != networkingv1.GroupName {
			return true
		}
	}
	return false
}

// closed is the wall that the policies of one direction of the pod make; nil: they let the way through, or there are none.
func closed(f *facts.Facts, w Way, p *corev1.Pod, d networkingv1.PolicyType) *Wall {
	b := &Wall{Way: w, Pod: p, Direction: d, Policies: selecting(f, p, d)}
	if len(b.Policies) == 0 {
		return nil
	}
	for _, n := range b.Policies {
		for _, r := range rulesOf(n, d) {
			if len(r.peers) > 0 && !slices.ContainsFunc(r.peers, func(peer networkingv1.NetworkPolicyPeer) bool { return isPeer(f, n, peer, w.other(p)) }) {
				continue
			}
			if portsOpen(r.ports, w.on) {
				return nil
			}
			b.Ports = b.Ports || portsOpen(r.ports, Way{}.on)
		}
	}
	return b
}

// other is the pod at the other end; nil: no pod is.
func (w Way) other(p *corev1.Pod) *corev1.Pod {
	if p == w.From {
		return w.To
	}
	return w.From
}

// selecting are the policies about the direction that select the pod. One in its node's network is not subject to them.
func selecting(f *facts.Facts, p *corev1.Pod, d networkingv1.PolicyType) (out []*networkingv1.NetworkPolicy) {
	if p.Spec.HostNetwork {
		return nil
	}
	for _, n := range f.NetworkPolicies {
		// The API server fills in the types: Ingress, and Egress where there are rules for it.
		types := n.Spec.PolicyTypes
		about := slices.Contains(types, d) || len(types) == 0 && (d == networkingv1.PolicyTypeIngress || len(n.Spec.Egress) > 0)
		s, err := metav1.LabelSelectorAsSelector(&n.Spec.PodSelector)
		if about && err == nil && n.Namespace == p.Namespace && n.DeletionTimestamp == nil && s.Matches(labels.Set(p.Labels)) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *networkingv1.NetworkPolicy) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// rule is one of either direction. No peers are all peers, and no ports all ports.
type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func rulesOf(n *networkingv1.NetworkPolicy, d networkingv1.PolicyType) (out []rule) {
	if d == networkingv1.PolicyTypeEgress {
		for _, r := range n.Spec.Egress {
			out = append(out, rule{r.To, r.Ports})
		}
		return out
	}
	for _, r := range n.Spec.Ingress {
		out = append(out, rule{r.From, r.Ports})
	}
	return out
}

// isPeer says whether the policy's peer is the pod; of an address that is no pod's, whether it may be.
func isPeer(f *facts.Facts, n *networkingv1.NetworkPolicy, peer networkingv1.NetworkPolicyPeer, p *corev1.Pod) bool {
	if peer.IPBlock != nil {
		return p == nil || inBlock(peer.IPBlock, p.Status.PodIP)
	}
	if p == nil {
		return false
	}
	if peer.NamespaceSelector == nil && n.Namespace != p.Namespace || peer.NamespaceSelector != nil && !selectsNamespace(f, peer.NamespaceSelector, p.Namespace) {
		return false
	}
	return selects(peer.PodSelector, p.Labels)
}

// inBlock is true where the pod's address is not known, or the block is masked.
func inBlock(b *networkingv1.IPBlock, ip string) bool {
	addr, err := netip.ParseAddr(ip)
	block, unread := netip.ParsePrefix(b.CIDR)
	if err != nil || unread != nil {
		return true
	}
	return block.Contains(addr) && !slices.ContainsFunc(b.Except, func(cidr string) bool {
		p, err := netip.ParsePrefix(cidr)
		return err == nil && p.Contains(addr)
	})
}

// selects says whether the selector, nil for all, has the labels.
func selects(s *metav1.LabelSelector, l map[string]string) bool {
	if s == nil {
		return true
	}
	sel, err := metav1.LabelSelectorAsSelector(s)
	return err != nil || sel.Matches(labels.Set(l))
}

// selectsNamespace is true of a namespace that is not seen, if its name alone does not decide.
func selectsNamespace(f *facts.Facts, s *metav1.LabelSelector, name string) bool {
	for _, n := range f.Namespaces {
		if n.Name == name {
			return selects(s, n.Labels)
		}
	}
	named, ok := s.MatchLabels[corev1.LabelMetadataName]
	return !ok || named == name
}

// portsOpen says whether one of the ports will do; none are all.
func portsOpen(ports []networkingv1.NetworkPolicyPort, will func(*networkingv1.NetworkPolicyPort) bool) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool { return will(&p) })
}

// on says whether the way may go over the port of a policy.
func (w Way) on(p *networkingv1.NetworkPolicyPort) bool {
	if p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
		return false
	}
	switch {
	case p.Port == nil || w.Port == 0 && !w.Any:
		return true
	case p.Port.Type == intstr.String:
		return w.To != nil && w.Port != 0 && slices.ContainsFunc(w.To.Spec.Containers, func(k corev1.Container) bool {
			return slices.ContainsFunc(k.Ports, func(c corev1.ContainerPort) bool {
				return c.Name == p.Port.StrVal && c.ContainerPort == w.Port
			})
		})
	}
	last := p.Port.IntVal
	if p.EndPort != nil {
		last = *p.EndPort
	}
	if w.Any {
		return p.Port.IntVal <= firstGiven && last >= lastGiven
	}
	return p.Port.IntVal <= w.Port && w.Port <= last
}

// isDNS says whether queries of DNS may go over the port: 53, and 5353, on which OpenShift's servers listen.
func isDNS(p *networkingv1.NetworkPolicyPort) bool {
	if p.Port == nil || p.Port.Type == intstr.String {
		return true
	}
	last := p.Port.IntVal
	if p.EndPort != nil {
		last = *p.EndPort
	}
	return p.Port.IntVal <= 53 && last >= 53 || p.Port.IntVal <= 5353 && last >= 5353
}

// mayBeDNS says whether the cluster's DNS may be among the peer's pods: the pods that are known to serve it, or, where none is, any of
// another namespace.
func mayBeDNS(f *facts.Facts, n *networkingv1.NetworkPolicy, peer networkingv1.NetworkPolicyPeer) bool {
	if peer.IPBlock != nil {
		return true
	}
	known := false
	for _, p := range f.Pods {
		if p.Labels["k8s-app"] != "kube-dns" && p.Labels["dns.operator.openshift.io/daemonset-dns"] == "" {
			continue
		}
		known = true
		if isPeer(f, n, peer, p) {
			return true
		}
	}
	return !known && peer.NamespaceSelector != nil && selectsNamespace(f, peer.NamespaceSelector, metav1.NamespaceSystem)
}

// Says is the wall in words: which policies select whom, and what they let through.
func (b *Wall) Says(to string) string {
	names := make([]string, len(b.Policies))
	for i, n := range b.Policies {
		names[i] = n.Name
	}
	who, does := "NetworkPolicy "+names[0], "lets"
	if len(names) > 1 {
		who, does = "NetworkPolicies "+wording.Few(names), "let"
	}
	through, some := "nothing out to "+to, "it out to "+to
	if b.Direction == networkingv1.PolicyTypeIngress {
		through, some = "nothing in from pod "+b.From.Name, "pod "+b.From.Name+" in"
	}
	switch {
	case b.Ports && b.Any:
		through = some + " on some ports only, and the programs take any"
	case b.Ports:
		through = fmt.Sprintf("%s on other ports only, not on %d", some, b.Port)
	}
	return fmt.Sprintf("%s of pod %s %s %s", who, b.Pod.Name, does, through)
}

// Evidence shows the policies.
func (b *Wall) Evidence() (out []facts.Evidence) {
	for _, n := range b.Policies {
		field := "spec.ingress"
		if b.Direction == networkingv1.PolicyTypeEgress {
			field = "spec.egress"
		}
		out = append(out, facts.Evidence{Object: facts.RefTo(n).In(), Field: field, Value: fmt.Sprintf("%s for %s", wording.Number(len(rulesOf(n, b.Direction)), "rule"), selected(&n.Spec.PodSelector))})
	}
	return out
}

func selected(s *metav1.LabelSelector) string {
	if len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return "all pods of the namespace"
	}
	return "pods with " + metav1.FormatLabelSelector(s)
}
