package provisioner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Expanders are how the cluster autoscaler chooses one of several groups that could grow (expander/expander.go). Those that ask a server
// of their own or the prices of a cloud, grpc and price, are not played.
const (
	byWaste    = "least-waste"
	byNodes    = "least-nodes"
	byPods     = "most-pods"
	byPriority = "priority"
	atRandom   = "random"
)

// Expanders are the names of those that are played; the first is the default.
func Expanders() []string { return []string{byWaste, byNodes, byPods, byPriority, atRandom} }

// CheckExpanders says what is wrong with a list of them (expander/factory/expander_factory.go, Build).
func CheckExpanders(names []string) error {
	for i, name := range names {
		switch {
		case !slices.Contains(Expanders(), name):
			return fmt.Errorf("expander %q: choose %s", name, strings.Join(Expanders(), ", "))
		case slices.Contains(names[:i], name):
			return fmt.Errorf("expander %s is named twice", name)
		case i > 0 && names[i-1] == atRandom:
			return fmt.Errorf("expander %s would never be used: %s before it leaves one group", name, atRandom)
		}
	}
	return nil
}

// option is a group that could grow, by how many nodes, and whom they would help.
type option struct {
	group  *group
	nodes  int
	helped []*corev1.Pod
}

// choose has one expander after the other leave fewer options, until one is left (expander/factory/chain.go). Of options that all of them
// find equal the real one draws; here it is the first, unless random is named.
func (s *autoscaler) choose(ctx context.Context, w *world, options []option) option {
	names := s.Expanders
	if len(names) == 0 {
		names = Expanders()[:1]
	}
	for _, name := range names {
		if len(options) <= 1 {
			break
		}
		options = s.filter(ctx, w, name, options)
	}
	if len(options) == 0 {
		return option{}
	}
	return options[0]
}

func (s *autoscaler) filter(ctx context.Context, w *world, name string, options []option) []option {
	switch name {
	case byWaste: // expander/waste/waste.go
		return least(options, func(o option) float64 { return o.group.waste(o.nodes, o.helped) })
	case byNodes: // expander/leastnodes/leastnodes.go
		return least(options, func(o option) float64 { return float64(o.nodes) })
	case byPods: // expander/mostpods/mostpods.go
		return least(options, func(o option) float64 { return -float64(len(o.helped)) })
	case byPriority:
		return s.prioritized(ctx, w, options)
	}
	i := rand.IntN(len(options)) // expander/random/random.go
	return options[i : i+1]
}

// least are the options of the lowest score.
func least(options []option, score func(option) float64) (out []option) {
	lowest := math.Inf(1)
	for _, o := range options {
		switch x := score(o); {
		case x < lowest:
			lowest, out = x, []option{o}
		case x == lowest:
			out = append(out, o)
		}
	}
	return out
}

// prioritized are the options whose group's name matches a rule of the highest priority, as the user's ConfigMap says at this moment
// (expander/priority/priority.go). Where it is missing or wrong, and where no group matches, all are left.
func (s *autoscaler) prioritized(ctx context.Context, w *world, options []option) []option {
	const name = "cluster-autoscaler-priority-expander"
	m, err := s.core.CoreV1().ConfigMaps(statusNamespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			s.Log.Warn("priority expander", "err", err)
		}
		return options
	}
	warn := func(reason, message string) {
		about := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: statusNamespace, Name: name, UID: m.UID}
		s.tell(ctx, w.now, about, "cluster-autoscaler", corev1.EventTypeWarning, reason, message, autoscalerQuiet)
	}
	text, found := m.Data["priorities"]
	if !found {
		warn("PriorityConfigMapInvalid", "Wrong configmap for priority expander, doesn't contain priorities key. Ignoring update.")
		return options
	}
	rules, err := readPriorities(text)
	if err != nil {
		warn("PriorityConfigMapInvalid", fmt.Sprintf("Wrong configuration for priority expander: %v. Ignoring update.", err))
		return options
	}
	highest, best := -1, []option(nil)
	for _, o := range options {
		priority, matches := rules.of(o.group.name)
		switch {
		case !matches:
			warn("PriorityConfigMapNotMatchedGroup", fmt.Sprintf("Priority expander: node group %s not found in priority expander configuration. The group won't be used.", o.group.name))
		case priority > highest:
			highest, best = priority, []option{o}
		case priority == highest:
			best = append(best, o)
		}
	}
	if len(best) == 0 {
		warn("PriorityConfigMapNoGroupMatched", "Priority expander: no priorities info found for any of the expansion options. No options filtered.")
		return options
	}
	return best
}

// priorities are the rules for names of groups, by priority.
type priorities map[int][]*regexp.Regexp

func readPriorities(text string) (priorities, error) {
	if text == "" {
		return nil, errors.New("priority configuration in cluster-autoscaler-priority-expander configmap is empty; please provide valid configuration")
	}
	var config map[int][]string
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		//lint:ignore ST1005 the autoscaler's words
		return nil, fmt.Errorf("Can't parse YAML with priorities in the configmap: %v", err)
	}
	out := make(priorities)
	for priority, list := range config { //archtest:any-order each has its own list
		for _, rule := range list {
			r, err := regexp.Compile(rule)
			if err != nil {
				//lint:ignore ST1005 the autoscaler's words
				return nil, fmt.Errorf("Can't compile regexp rule for priority %d and rule %s: %v", priority, rule, err)
			}
			out[priority] = append(out[priority], r)
		}
	}
	return out, nil
}

// of is the highest priority of which a rule matches the name; false: none does.
func (p priorities) of(name string) (highest int, ok bool) {
	for priority, rules := range p { //archtest:any-order the highest is the same in any order
		if (!ok || priority > highest) && slices.ContainsFunc(rules, func(r *regexp.Regexp) bool { return r.MatchString(name) }) {
			highest, ok = priority, true
		}
	}
	return highest, ok
}
