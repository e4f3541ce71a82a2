package inventory

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// MaxSelections is how many different selections are kept. When there are more, all are forgotten and those that are still asked
// for entered again: each costs a look at every device.
const MaxSelections = 256

// asked is what claims, and pods that request resources of device classes, ask about.
type asked struct {
	selections map[string]convert.Selection // of claims, by name
	resources  map[string]convert.Selection // that device classes have and pods request, besides GPUs
	attributes map[string]bool              // that claims want to agree in
	derived    map[string]string            // expressions of attributes that requests derive, by name
	crowded    bool                         // there were more selections than are kept
}

func newAsked() asked {
	return asked{selections: make(map[string]convert.Selection), resources: make(map[string]convert.Selection), attributes: make(map[string]bool), derived: make(map[string]string)}
}

// Learn takes note of what claims ask about.
func (v *Inventory) Learn(a *convert.Asked) {
	for _, s := range a.Selections {
		if _, known := v.selections[s.Name]; known {
			continue
		}
		if len(v.selections) >= MaxSelections {
			clear(v.selections)
			clear(v.attributes)
			clear(v.derived)
			v.crowded = true
			v.Forget()
		}
		v.selections[s.Name], v.changes.Grown = s, true
	}
	for _, rule := range a.Claims.Match {
		if !v.attributes[rule.Attribute] {
			v.attributes[rule.Attribute], v.changes.Grown = true, true
		}
	}
	//archtest:any-order each is entered by itself
	for name, expression := range a.Derived {
		if _, known := v.derived[name]; !known {
			v.derived[name], v.changes.Grown = expression, true
		}
	}
}

// MayLearn says whether the selections of a pod that runs are known, or have room beside those of pods that wait, which come first: once there
// were too many, and they were forgotten, no more are learnt of pods that run.
func (v *Inventory) MayLearn(a *convert.Asked) bool {
	n := 0
	for _, s := range a.Selections {
		if _, known := v.selections[s.Name]; !known {
			n++
		}
	}
	return n == 0 || !v.crowded && len(v.selections)+n <= MaxSelections/2
}

// LearnResource has nodes say how many devices they have that the selection means, under the resource's name. GPUs they count anyway.
func (v *Inventory) LearnResource(resource string, s convert.Selection) {
	if _, known := v.resources[resource]; !known && resource != "" && resource != v.gpu {
		v.resources[resource], v.changes.Grown = s, true
	}
}

// Forget has all who ask about devices read again, and the resources that they ask for: a device class changed, or the devices that several
// nodes reach. Few of either come and go.
func (v *Inventory) Forget() {
	clear(v.resources)
	v.changes.Forgotten, v.changes.Grown = true, true
}

// meeting is which devices meet a selection.
type meeting struct {
	some  bool  // there are such
	parts bool  // not all of them are whole GPUs
	least int64 // of a GPU that one of them, or the share of it that is asked for, is, in thousandths
	known bool  // some are decided about
	far   bool  // some are not: too many are reached by several nodes
	taker bool  // some are not: they take of their nodes besides
}

// meets looks at all devices once for a selection, until they change.
func (v *Inventory) meets(s *convert.Selection) meeting {
	out, known := v.met[s.Name]
	if known {
		return out
	}
	look := func(offered *convert.Offered, far bool) {
		for i := range offered.Devices {
			dev := &offered.Devices[i]
			if meant, err := v.isMeant(s, dev); !dev.For(s, meant, err).Matches {
				continue
			}
			of := dev.OfGPU()
			if dev.Shared() {
				of = dev.PartOfGPU(dev.Use(s))
			}
			if !out.some || of < out.least {
				out.least = of
			}
			out.some = true
			out.parts = out.parts || far || !dev.WholeGPU()
			tooFar, taker := far && v.manyFar(), dev.TakesOfNode()
			out.known, out.far, out.taker = out.known || !tooFar && !taker, out.far || tooFar, out.taker || taker
		}
	}
	//archtest:any-order it asks whether there is one, and for the least
	for _, offered := range v.offered {
		look(&offered, false)
	}
	look(&v.far, true)
	v.met[s.Name] = out
	return out
}

// Undecided is what the claims ask for that is not decided; "": nothing. Devices of which nothing is decided do not matter where others
// will do, unless all are wanted.
func (v *Inventory) Undecided(a *convert.Asked) why.Feature {
	if a.Unknown != "" {
		return a.Unknown
	}
	for i := range a.Selections {
		s := &a.Selections[i]
		switch m := v.meets(s); {
		case m.known && !s.All:
		case m.far:
			return why.SharedDevices
		case m.taker:
			return why.NodeResources
		}
	}
	return ""
}

// MayChange says whether what the claims come to depends on which devices there are: an option that none matches now may be the one that is
// had, once there are some.
func (v *Inventory) MayChange(a *convert.Asked) bool {
	return slices.ContainsFunc(a.Selections, func(s convert.Selection) bool { return !v.meets(&s).some }) ||
		slices.ContainsFunc(a.Claims.Requests, func(r engine.DeviceRequest) bool { return len(r.Options) > 1 })
}

// matching are the selections that the device matches, and the names of those that fail for it, and of those of all devices that it blocks,
// sorted. With unsure all devices cannot be evaluated.
func (v *Inventory) matching(dev *convert.OfferedDevice, unsure bool) (matches []convert.Selection, fails, blocks []string) {
	//archtest:any-order they are sorted below
	for name, s := range v.selections {
		meant, err := v.isMeant(&s, dev)
		is := dev.For(&s, meant, err)
		if is.Matches {
			matches = append(matches, s)
		}
		if is.Fails || unsure && s.All {
			fails = append(fails, name)
		}
		if is.Blocks {
			blocks = append(blocks, name)
		}
	}
	slices.SortFunc(matches, func(a, b convert.Selection) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(fails)
	slices.Sort(blocks)
	return matches, fails, blocks
}

// isMeant says whether the selection's expressions are true of the device, whatever taints it has. The first that is not true, or fails,
// decides.
func (v *Inventory) isMeant(s *convert.Selection, dev *convert.OfferedDevice) (bool, error) {
	for _, e := range s.Expressions {
		if ok, err := v.selects(e, dev.Driver, dev.Device); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// derive is the values of attributes that requests derive for the device; nil for none. One whose expression fails it does not have.
func (v *Inventory) derive(dev *convert.OfferedDevice) (out map[string]string) {
	if v.derives == nil {
		return nil
	}
	//archtest:any-order each is entered by itself
	for name, expression := range v.derived {
		attribute, err := v.derives(expression, dev.Driver, dev.Device)
		if err != nil || attribute == nil {
			continue
		}
		if text := convert.AttributeText(attribute); text != "" {
			if out == nil {
				out = make(map[string]string)
			}
			out[name] = text
		}
	}
	return out
}
