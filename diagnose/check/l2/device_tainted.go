package l2

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var deviceTaintedCheck = check.Check{
	Cause: "device-tainted", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 34,
	Title:   "The devices that would do have a taint",
	Meaning: "The pod claims devices of which there are some, free and of the right kind, and their driver or an administrator has tainted them: one that is lost, has an Xid error, or is kept for others. The scheduler gives them only to claims that tolerate the taint, and says that it cannot allocate all claims.",
	Remedy:  "See to the device, after which the driver takes the taint away. Tolerate only taints that keep devices for a purpose.",
	Not:     "All devices are in use, or the selector is wrong.",
	Find:    deviceTainted,
}

func deviceTainted(c *check.Case) []check.Finding {
	if c.Fit == nil || c.Fit.Exclusion(check.ByDevices) == nil {
		return nil
	}
	d := place.OffersOf(c.Facts)
	asks := place.OpenAsks(c.Facts, place.ClaimsOf(c.Facts, c.Pod))
	var out []check.Finding
	for i := range asks {
		a := &asks[i]
		var tainted []*place.Device
		for _, v := range d.All {
			if v.Holder == nil && !d.Suits(v, &a.DeviceAsk) && d.InClass(v, a.Class) && place.Selected(c.Facts, v, a.Selectors) == nil {
				tainted = append(tainted, v)
			}
		}
		any := d.Alternatives(asks, a)
		if len(tainted) == 0 || any != nil && any.Nearest < place.Repelled {
			continue
		}
		f := taintedFinding(c, a, tainted)
		if any != nil {
			f.Message = any.Text
		}
		out = append(out, f)
	}
	return out
}

func taintedFinding(c *check.Case, a *place.AskAt, tainted []*place.Device) check.Finding {
	t := place.Repelling(tainted[0], &a.DeviceAsk)
	text := taintWords(t)
	rules := place.TaintRules(c.Facts, tainted...)
	f := check.Finding{
		Fit: true, Probe: &edit.Edit{Side: edit.Cluster, Text: "take the taints off the devices", Set: untainted(tainted), Gone: rules},
		Message: fmt.Sprintf("claim %s asks for devices of class %s; %s %s free and would do, but for the taint %s, as of device %s", a.Claim.Name, a.Class,
			wording.Number(len(tainted), "device"), wording.InNumber(len(tainted), "is", "are"), text, tainted[0].ID()),
	}
	for _, v := range tainted[:min(len(tainted), 3)] {
		if len(place.TaintRules(c.Facts, v)) > 0 {
			continue
		}
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(v.Slice).In(), Field: fmt.Sprintf("spec.devices[name=%q].taints", v.Name), Value: taintWords(place.Repelling(v, &a.DeviceAsk))})
	}
	for _, r := range rules {
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(r).In(), Field: "spec.taint", Value: taintWords(r.(*resourcev1.DeviceTaintRule).Spec.Taint)})
	}
	if gpustack.DeviceHealthTaint(t.Key) {
		return f
	}
	op := edit.Op{Op: "add", Path: a.Path() + "/tolerations", Value: []map[string]string{{"key": t.Key, "operator": "Exists", "effect": string(t.Effect)}}}
	if e, ok := place.Rewrite(c, a, fmt.Sprintf("tolerate the taint %s in claim %s", text, a.Claim.Name), op); ok && len(a.Tolerations()) == 0 {
		e.Cost, e.Assumes = edit.CostConsent, "who tainted the devices lets the pod have them"
		f.Edits = []edit.Edit{e}
	}
	if len(rules) == 1 {
		f.Edits = append(f.Edits, edit.Edit{
			Side: edit.Cluster, Text: "delete DeviceTaintRule " + rules[0].GetName(), Command: "kubectl delete devicetaintrule " + rules[0].GetName(), Gone: rules,
			Cost: edit.CostConsent, Assumes: "the devices that the rule keeps from use are fit for it again",
		})
	}
	return f
}

// untainted are the slices without taints of their devices.
func untainted(devices []*place.Device) []facts.Object {
	var out []facts.Object
	for _, v := range devices {
		if slices.ContainsFunc(out, func(o facts.Object) bool { return o.GetName() == v.Slice.Name }) {
			continue
		}
		s := v.Slice.DeepCopy()
		for i := range s.Spec.Devices {
			s.Spec.Devices[i].Taints = nil
		}
		out = append(out, s)
	}
	return out
}

func taintWords(t resourcev1.DeviceTaint) string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	return text + ":" + string(t.Effect)
}
