package place

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/internal/spelling"
)

// AskAt is one request of the pod's claims, with where it is written.
type AskAt struct {
	Claim *PodClaim
	DeviceAsk
	Request, sub int // indexes in the claim; sub is -1 where the request has no alternatives
}

// OpenAsks are the requests of the pod's claims that have no devices yet.
func OpenAsks(f *facts.Facts, claims []PodClaim) []AskAt {
	var out []AskAt
	for i := range claims {
		c := &claims[i]
		if c.ResourceClaim != nil && c.Status.Allocation != nil {
			continue
		}
		for j, any := range deviceAsks(c.spec) {
			for k := range any {
				at := AskAt{c, any[k], j, k}
				if c.spec.Requests[j].Exactly != nil {
					at.sub = -1
				}
				out = append(out, at)
			}
		}
	}
	return out
}

// Path is where in a claim's list of devices the request is written.
func (a *AskAt) Path() string {
	if a.sub >= 0 {
		return fmt.Sprintf("/requests/%d/firstAvailable/%d", a.Request, a.sub)
	}
	return fmt.Sprintf("/requests/%d/exactly", a.Request)
}

// Where names the claim, and the alternative where the request is one of several.
func (a *AskAt) Where() string {
	if a.sub >= 0 {
		return fmt.Sprintf("alternative %s of claim %s", a.name, a.Claim.Name)
	}
	return "claim " + a.Claim.Name
}

// Evidence is the field of the request in what was written.
func (a *AskAt) Evidence(field, value string) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(a.Claim.written).In(), Field: devicesField(a.Claim.written) + strings.ReplaceAll(a.Path(), "/", ".") + field, Value: value}
}

func devicesField(o facts.Object) string {
	if _, ok := o.(*resourcev1.ResourceClaimTemplate); ok {
		return "spec.spec.devices"
	}
	return "spec.devices"
}

// Rewrite is the edit that changes the request. Neither claims nor templates can be changed once they are there: they
// are made anew, and from a template the pod's claims are too.
func Rewrite(c *check.Case, a *AskAt, text string, ops ...edit.Op) (edit.Edit, bool) {
	e := edit.Edit{Side: edit.Workload, Cost: 2, Text: text}
	var commands []string
	change := func(o facts.Object) bool {
		field := "/" + strings.ReplaceAll(devicesField(o), ".", "/")
		after, err := edit.Patch(o, field, ops)
		if err != nil {
			return false
		}
		e.Set = append(e.Set, after)
		return true
	}
	if !change(a.Claim.written) {
		return e, false
	}
	r := facts.RefTo(a.Claim.written)
	moved := make([]edit.Op, len(ops))
	for i, op := range ops {
		op.Path = "/" + strings.ReplaceAll(devicesField(a.Claim.written), ".", "/") + op.Path
		moved[i] = op
	}
	commands = append(commands, fmt.Sprintf("kubectl get %s %s -n %s -o json | kubectl patch --local -f - --type=json -p %s -o json | kubectl replace --force -f -", strings.ToLower(r.Kind), r.Name, r.Namespace, edit.QuoteOps(moved)))
	if _, template := a.Claim.written.(*resourcev1.ResourceClaimTemplate); template {
		for _, p := range c.All {
			if p.Spec.NodeName != "" || facts.Ended(p) {
				continue
			}
			for _, claim := range ClaimsOf(c.Facts, p) {
				if claim.ResourceClaim != nil && claim.written == a.Claim.written {
					change(claim.ResourceClaim)
				}
			}
			commands = append(commands, startAnew(c, p.Name))
		}
	}
	e.Command = strings.Join(commands, "\n")
	return e, true
}

// startAnew has the pod made again, with new claims.
func startAnew(c *check.Case, pod string) string {
	if c.Owner() == facts.Object(c.Pod) {
		return fmt.Sprintf("kubectl get pod %s -n %s -o json | kubectl replace --force -f -", pod, c.Pod.Namespace)
	}
	return fmt.Sprintf("kubectl delete pod %s -n %s", pod, c.Pod.Namespace)
}

var literal = regexp.MustCompile(`"[^"\\]*"|'[^'\\]*'`)

// OtherWords are the expression with one of its quoted words changed to a value that devices have, so that some of
// them match: the fewest changed letters first, two at most.
func OtherWords(f *facts.Facts, expression string, all []*Device) []string {
	type option struct {
		text  string
		typos int
	}
	var out []option
	values := textValues(all)
	for _, at := range literal.FindAllStringIndex(expression, -1) {
		word := expression[at[0]+1 : at[1]-1]
		for _, v := range values {
			changed := expression[:at[0]+1] + v + expression[at[1]-1:]
			selector := []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: changed}}}
			if v != word && !strings.ContainsAny(v, `"'\`) && slices.ContainsFunc(all, func(d *Device) bool { return Selected(f, d, selector) == nil }) {
				out = append(out, option{changed, spelling.Distance(word, v)})
			}
		}
	}
	slices.SortFunc(out, func(a, b option) int {
		if a.typos != b.typos {
			return a.typos - b.typos
		}
		return strings.Compare(a.text, b.text)
	})
	var texts []string
	for _, o := range out[:min(2, len(out))] {
		texts = append(texts, o.text)
	}
	return texts
}

// textValues are the texts that devices have as attributes, and their drivers: those that several could share, sorted.
func textValues(all []*Device) []string {
	seen := make(map[string]bool)
	for _, d := range all {
		seen[d.driver] = true
		for name, a := range d.Attributes {
			if a.StringValue != nil && !strings.Contains(strings.ToLower(string(name)), "uuid") {
				seen[*a.StringValue] = true
			}
		}
	}
	var out []string
	for v := range seen {
		out = append(out, v)
	}
	slices.Sort(out)
	return out[:min(24, len(out))]
}

// Sample is what an attribute of the devices says, where they all say the same or a few things: productName=A or B.
func Sample(all []*Device, name resourcev1.QualifiedName) string {
	var out []string
	for _, d := range all {
		if a, ok := d.Attributes[name]; ok && a.StringValue != nil && !slices.Contains(out, *a.StringValue) {
			out = append(out, *a.StringValue)
		}
	}
	slices.Sort(out)
	return wording.Few(out)
}
