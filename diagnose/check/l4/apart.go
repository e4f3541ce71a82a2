package l4

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/network"
)

// A NetworkPolicy drops packets without a word: who is kept apart by one waits until a time-out. So policies are asked after only where a
// program says that it gets no answer, and never where one says that it was refused, because a refusal is an answer.

var (
	ofNoAnswer  = regexp.MustCompile(`(?i)connection timed out|connect(ion)? ?time-?out|time-?out(error)?:? .*connect|timed out.*connect|connect.* timed out|i/o timeout|errno: 110\b|\betimedout\b|etimedout|no route to host|handshake timeout`)
	ofAnyPort   = regexp.MustCompile(`(?i)\bnccl|\bgloo\b|collective|\brank \d`)
	portInWords = regexp.MustCompile(`(?i)[\]a-z0-9][:<](\d{2,5})\b|\bport[ =:]+(\d{2,5})\b|\w, (\d{4,5})\)`)
	addressIn   = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`)
)

// wallToPeers is the NetworkPolicies that close the way between the pod and a peer of which the line may speak; nil: none do. A line that
// names no peer is about the one that the pod is told to meet (MASTER_ADDR), or else about any of them, in either direction.
func wallToPeers(c *check.Case, line string, port int32) *network.Wall {
	p := c.Pod
	w := network.Way{From: p, Port: cmp.Or(portIn(line), port)}
	w.Any = w.Port == 0 && ofAnyPort.MatchString(line)
	peers := slices.DeleteFunc(crew(c.Facts, p), func(o *corev1.Pod) bool { return o.Spec.NodeName == "" || facts.Ended(o) })
	told := line
	if !w.Any && !slices.ContainsFunc(peers, func(o *corev1.Pod) bool { return names(line, o) }) {
		told = masterOf(p)
	}
	met := told != line && names(told, p) // the others come to this one
	if named := slices.DeleteFunc(slices.Clone(peers), func(o *corev1.Pod) bool { return !names(told, o) }); len(named) > 0 && !met {
		peers = named
	}
	for _, o := range peers {
		there, back := w, w
		there.To, back.From, back.To = o, o, p
		ways := []network.Way{back, there}
		switch {
		case met:
			ways = ways[:1]
		case names(told, o):
			ways = ways[1:]
		}
		for _, w := range ways {
			if b := network.Closed(c.Facts, w); b != nil {
				return b
			}
		}
	}
	return nil
}

// masterOf is the address of the pod that the pod's processes are told to meet; "" for none.
func masterOf(p *corev1.Pod) string {
	for i := range p.Spec.Containers {
		for _, e := range p.Spec.Containers[i].Env {
			if e.Name == "MASTER_ADDR" {
				return e.Value
			}
		}
	}
	return ""
}

// portIn is the port that the line names; 0: none.
func portIn(line string) int32 {
	for _, m := range portInWords.FindAllStringSubmatch(line, -1) {
		if n, err := strconv.Atoi(cmp.Or(m[1], m[2], m[3])); err == nil && n < 1<<16 {
			return int32(n)
		}
	}
	return 0
}

// names says whether the line names the pod, by its name, its host name or its address.
func names(line string, p *corev1.Pod) bool {
	if p.Status.PodIP != "" && slices.Contains(addressIn.FindAllString(line, -1), p.Status.PodIP) {
		return true
	}
	return slices.ContainsFunc(nameIn.FindAllString(strings.ToLower(line), -1), func(name string) bool {
		host, _, _ := strings.Cut(name, ".")
		return host == cmp.Or(p.Spec.Hostname, p.Name) || host == p.Name
	})
}

// wallOutside is the NetworkPolicies that let the pod reach nobody outside of the cluster, where the line is about somebody there: a name
// with a dot that is not one of the cluster's, or an address that no pod has.
func wallOutside(c *check.Case, line string) *network.Wall {
	outside := slices.ContainsFunc(nameIn.FindAllString(strings.ToLower(line), -1), func(name string) bool {
		return foreignName.MatchString(name) && !strings.Contains(name, ".svc") && !strings.HasSuffix(name, ".local")
	})
	if !outside {
		return nil
	}
	return network.Closed(c.Facts, network.Way{From: c.Pod, Port: portIn(line)})
}

// foreignName is a name of the public DNS. Modules and files have dots, too, and end otherwise.
var foreignName = regexp.MustCompile(`\.(com|org|net|io|ai|dev|cloud|co|eu|de|uk|fr|cn|jp|gov|edu|internal|corp|lan)$`)

// walledOff is what the pod's NetworkPolicies make of a line in which a program says that it gets no answer.
func walledOff(c *check.Case, _ *life.Container, line string) (string, check.Finding) {
	if strings.Contains(line, "lookup ") {
		if b := network.ClosedToDNS(c.Facts, c.Pod); b != nil {
			return "gets no answer from DNS: " + b.Says("DNS"), walls(b)
		}
	}
	if b := wallToPeers(c, line, 0); b != nil && names(line, b.To) {
		return "gets no answer: " + b.Says("pod "+b.To.Name), walls(b)
	}
	if b := wallOutside(c, line); b != nil {
		return "gets no answer: " + b.Says("addresses outside of the cluster"), walls(b)
	}
	return "", check.Finding{}
}

// walls is the finding of a wall, but for its message.
func walls(b *network.Wall) check.Finding {
	f := check.Finding{Layer: check.L4, Owner: check.Policy, Evidence: b.Evidence()}
	ns := b.Pod.Namespace
	f.Advice = fmt.Sprintf("Have a NetworkPolicy of namespace %s let the pod out: port 53 of UDP and TCP to the cluster's DNS, and the ports of what it needs.", ns)
	if b.To != nil {
		f.Advice = fmt.Sprintf("Have a NetworkPolicy of namespace %s let the pods of this work reach each other on all ports: podSelector, ingress and egress with the same label of theirs. Collectives take ports that nobody knows before.", ns)
	}
	return f
}
