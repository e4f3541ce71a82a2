package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Offer is one device of a node that resource claims are met with: a GPU, a partition of one, a network card. What a pod may
// ask about it was decided where it is known: Selections names the selections that it matches, so that the engine compares names
// and evaluates no expression.
type Offer struct {
	ID         string            `json:"id"`                   // driver/pool/device, unique in the cluster
	Selections []string          `json:"selections,omitempty"` // sorted
	Attributes map[string]string `json:"attributes,omitempty"` // those that pods want to be the same, or to differ, among their devices; values of a list are joined by Several
	Draws      []Draw            `json:"draws,omitempty"`      // what it takes of the node's counters while it is held
	Taken      bool              `json:"taken,omitempty"`      // not free, though no known pod holds it
	// Reach names the nodes that reach a device which is not of one node, and which each of them offers under the same ID: whoever
	// holds it on one node keeps it from all of them. Devices with the same Reach are offered by the same nodes. "": it is of this node.
	Reach string `json:"reach,omitempty"`
	// Fails names the selections that cannot be evaluated for it, sorted: a pod that would have to look at it with one of these gets no
	// devices of the node.
	Fails []string `json:"fails,omitempty"`
	// Blocks names the selections for which it is one of all devices that are wanted, and cannot be had, sorted: it has a taint.
	Blocks []string `json:"blocks,omitempty"`
	// Shared is that several may have it at once, a share each: what their shares draw on Capacity must be there. Uses is what a share
	// draws, by selection, sorted; of a selection that is not among them it draws nothing.
	Shared   bool      `json:"shared,omitempty"`
	Capacity []Counter `json:"capacity,omitempty"`
	Uses     []Use     `json:"uses,omitempty"`
	// Groups are those that it is of, by set of counters that it draws on, sorted: devices that draw on one set at a time must all have a
	// group in common there, or all have none. Sets of which no device has groups are not listed.
	Groups []SetGroups `json:"groups,omitempty"`
	// Held are the shares of it, with their names, that no known pod has.
	Held []string `json:"held,omitempty"`
}

// Use is what a share of a device draws on its capacity when it is asked for by the selection.
type Use struct {
	Selection string `json:"selection"`
	Draws     []Draw `json:"draws"`
}

// SetGroups is which groups a device is of in a set of counters.
type SetGroups struct {
	Set    string   `json:"set"`
	Groups []string `json:"groups,omitempty"`
}

func (g SetGroups) equal(h SetGroups) bool { return g.Set == h.Set && slices.Equal(g.Groups, h.Groups) }

// Several joins the values of an attribute that has more than one.
const Several = "\x1f"

// CommonValues is what two values of an attribute, each of which may be several, have in common; ok is whether that is anything.
func CommonValues(a, b string) (common string, ok bool) {
	if a == b {
		return a, true
	}
	if !strings.Contains(a, Several) && !strings.Contains(b, Several) {
		return "", false
	}
	of := strings.Split(b, Several)
	both := slices.DeleteFunc(strings.Split(a, Several), func(v string) bool { return !slices.Contains(of, v) })
	return strings.Join(both, Several), len(both) > 0
}

// Draw is what a device takes of a counter: partitions of one card share its memory and its compute slices.
type Draw struct {
	Counter string `json:"counter"`
	Amount  int64  `json:"amount"`
}

// Counter is what the devices of a node that draw on it share.
type Counter struct {
	Name   string `json:"name"`
	Amount int64  `json:"amount"`
}

// Claims are the devices that a pod's resource claims ask for, those of all claims together: either all are had on the pod's
// node, or the pod does not fit there.
type Claims struct {
	Requests []DeviceRequest   `json:"requests"`
	Match    []DeviceAgreement `json:"match,omitempty"`
	// Counted is that the requests stand for extended resources, which are among the pod's requests too: on a node that gives
	// none of them through claims (Node.ByClaims) their count is all that matters.
	Counted bool `json:"counted,omitempty"`
	// GPUsByCount is that the pod requests GPUs, or parts of some, beside what the claims ask for: it has no place where they are
	// given through claims alone. Otherwise all GPUs among its requests are those of the claims.
	GPUsByCount bool `json:"gpusByCount,omitempty"`
}

// ClaimsOn are the claims of the pod that have to be met with devices of the node; nil: none.
func (s *Spec) ClaimsOn(n *Node) *Claims {
	if s.Claims == nil || !s.Claims.Counted {
		return s.Claims
	}
	//mutate: claims-counted
	if n == nil || !slices.ContainsFunc(n.ByClaims, func(resource string) bool { return s.Requests.Get(resource) > 0 }) {
		return nil
	}
	return s.Claims
}

// CountsGPUs says whether GPUs that the pod requests are had by count on the node, and not through its claims.
func (s *Spec) CountsGPUs(n *Node) bool {
	c := s.ClaimsOn(n)
	return c == nil || c.GPUsByCount
}

// DeviceRequest is met by the first of its options that can be had on the node together with the requests before it.
type DeviceRequest struct {
	Name    string         `json:"name"`            // claim/request, for people
	Claim   int            `json:"claim,omitempty"` // the number of its claim among those of the pod: one claim has a device once
	Options []DeviceOption `json:"options"`
}

// DeviceOption is so many devices that match a selection.
type DeviceOption struct {
	Selection string `json:"selection"`
	Count     int    `json:"count,omitempty"`
	All       bool   `json:"all,omitempty"`   // all that match on the node, one at least; none of them may be held
	Admin     bool   `json:"admin,omitempty"` // admin access: others may hold the devices too, and it keeps none from them
	Match     []int  `json:"match,omitempty"` // the agreements that its devices are under, by their number in Claims.Match
	// As are, for each of Match, the attribute that its devices have in place of the agreement's; "", and nil: the agreement's own.
	As []string `json:"as,omitempty"`
}

// Attribute is the one that the devices of the option have in its k-th agreement.
func (o *DeviceOption) Attribute(c *Claims, k int) string {
	if o.As != nil && o.As[k] != "" {
		return o.As[k]
	}
	return c.Match[o.Match[k]].Attribute
}

// DeviceAgreement is an attribute that devices must have: the same value on all, or another on each. Of attributes with several values one must be
// common to all devices, or no two devices may have one in common.
type DeviceAgreement struct {
	Attribute string `json:"attribute"`
	Distinct  bool   `json:"distinct,omitempty"`
}

// What a node may offer and a pod may claim. Kubernetes allows 32 devices in a claim; a pod has few claims.
const (
	MaxOffers       = 4096
	MaxClaimDevices = 256 // of a pod
	MaxOfOneClaim   = 32
	MaxClaims       = 32 // of a pod
)

// String names the requests, for people.
func (c *Claims) String() string {
	names := make([]string, len(c.Requests))
	for i, r := range c.Requests {
		names[i] = r.Name
	}
	return strings.Join(names, ", ")
}

// Alternatives says whether a request has more than one option.
func (c *Claims) Alternatives() bool {
	return c != nil && slices.ContainsFunc(c.Requests, func(r DeviceRequest) bool { return len(r.Options) > 1 })
}

func (c *Claims) equal(o *Claims) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.Counted == o.Counted && c.GPUsByCount == o.GPUsByCount && slices.Equal(c.Match, o.Match) && slices.EqualFunc(c.Requests, o.Requests, func(a, b DeviceRequest) bool {
		return a.Name == b.Name && a.Claim == b.Claim && slices.EqualFunc(a.Options, b.Options, func(a, b DeviceOption) bool {
			return a.Selection == b.Selection && a.Count == b.Count && a.All == b.All && a.Admin == b.Admin && slices.Equal(a.Match, b.Match) && slices.Equal(a.As, b.As)
		})
	})
}

// check says why the claims make no sense; "": they do.
func (c *Claims) check() string {
	if c == nil {
		return ""
	}
	if len(c.Requests) == 0 {
		return "claims: no request"
	}
	total := 0
	for _, r := range c.Requests {
		if len(r.Options) == 0 {
			return fmt.Sprintf("claims: request %s has no option", r.Name)
		}
		if r.Claim < 0 || r.Claim >= MaxClaims {
			return fmt.Sprintf("claims: request %s is of claim %d", r.Name, r.Claim)
		}
		most := 0
		for _, o := range r.Options {
			switch {
			case o.Selection == "":
				return fmt.Sprintf("claims: request %s selects nothing", r.Name)
			case o.All != (o.Count == 0) || o.Count < 0:
				return fmt.Sprintf("claims: request %s asks for %d devices", r.Name, o.Count)
			case slices.ContainsFunc(o.Match, func(i int) bool { return i < 0 || i >= len(c.Match) }):
				return fmt.Sprintf("claims: request %s names an agreement that there is not", r.Name)
			case o.As != nil && len(o.As) != len(o.Match):
				return fmt.Sprintf("claims: request %s names %d attributes for %d agreements", r.Name, len(o.As), len(o.Match))
			}
			most = max(most, o.Count)
		}
		if total += most; total > MaxClaimDevices {
			return fmt.Sprintf("claims: more than %d devices", MaxClaimDevices)
		}
	}
	for _, m := range c.Match {
		if m.Attribute == "" {
			return "claims: an agreement about no attribute"
		}
	}
	return ""
}

// Matches says whether the selection selects the device.
func (o *Offer) Matches(selection string) bool {
	_, ok := slices.BinarySearch(o.Selections, selection)
	return ok
}

// Alike says whether no claim can tell the devices apart.
func (o *Offer) Alike(p *Offer) bool {
	return o.Taken == p.Taken && o.Reach == p.Reach && slices.Equal(o.Selections, p.Selections) && maps.Equal(o.Attributes, p.Attributes) && slices.Equal(o.Draws, p.Draws) &&
		slices.Equal(o.Fails, p.Fails) && slices.Equal(o.Blocks, p.Blocks) && o.Shared == p.Shared && slices.Equal(o.Capacity, p.Capacity) && slices.EqualFunc(o.Uses, p.Uses, Use.equal) && slices.Equal(o.Held, p.Held) && slices.EqualFunc(o.Groups, p.Groups, SetGroups.equal)
}

func (u Use) equal(v Use) bool { return u.Selection == v.Selection && slices.Equal(u.Draws, v.Draws) }

// FailsFor says whether the selection cannot be evaluated for the device.
func (o *Offer) FailsFor(selection string) bool {
	_, is := slices.BinarySearch(o.Fails, selection)
	return is
}

// BlocksFor says whether a request for all devices of the selection would have to be given it, and cannot.
func (o *Offer) BlocksFor(selection string) bool {
	_, is := slices.BinarySearch(o.Blocks, selection)
	return is
}

// UseOf is what a share of the device draws for the selection.
func (o *Offer) UseOf(selection string) []Draw {
	i, ok := slices.BinarySearchFunc(o.Uses, selection, func(u Use, s string) int { return strings.Compare(u.Selection, s) })
	if !ok {
		return nil
	}
	return o.Uses[i].Draws
}

func (o Offer) equal(p Offer) bool {
	return o.ID == p.ID && o.Alike(&p)
}

// EqualOffers says whether two nodes have the same devices for claims.
func (n *Node) EqualOffers(o *Node) bool {
	return slices.Equal(n.ByClaims, o.ByClaims) && slices.Equal(n.Counters, o.Counters) && slices.EqualFunc(n.Offers, o.Offers, Offer.equal)
}

// checkOffers is about the devices that claims are met with.
func (n *Node) checkOffers() string {
	if len(n.Offers) > MaxOffers {
		return fmt.Sprintf("%d devices are offered, more than %d", len(n.Offers), MaxOffers)
	}
	for i, resource := range n.ByClaims {
		if resource == "" || i > 0 && n.ByClaims[i-1] >= resource {
			return fmt.Sprintf("resource %q: those that are given by claims are sorted, each once", resource)
		}
	}
	left := make(map[string]int64, len(n.Counters))
	for _, c := range n.Counters {
		if _, twice := left[c.Name]; twice || c.Amount < 0 || c.Amount > MaxAmount {
			return fmt.Sprintf("counter %s of %d makes no sense, or is there twice", c.Name, c.Amount)
		}
		left[c.Name] = c.Amount
	}
	ids := make(map[string]bool, len(n.Offers))
	for i := range n.Offers {
		o := &n.Offers[i]
		if o.ID == "" || ids[o.ID] || strings.ContainsAny(o.ID, "?#") {
			return fmt.Sprintf("device %q is offered twice, or has no id, or one with a ? or a #", o.ID)
		}
		ids[o.ID] = true
		if !slices.IsSorted(o.Selections) || !slices.IsSorted(o.Fails) || !slices.IsSorted(o.Blocks) {
			return fmt.Sprintf("selections of device %s are not sorted", o.ID)
		}
		if text := o.checkShares(); text != "" {
			return fmt.Sprintf("device %s: %s", o.ID, text)
		}
		for k, g := range o.Groups {
			if g.Set == "" || k > 0 && o.Groups[k-1].Set >= g.Set {
				return fmt.Sprintf("groups of device %s are not sorted by set", o.ID)
			}
		}
		for _, d := range o.Draws {
			if _, known := left[d.Counter]; !known || d.Amount < 0 || d.Amount > MaxAmount {
				return fmt.Sprintf("device %s draws %d on counter %s", o.ID, d.Amount, d.Counter)
			}
		}
	}
	return ""
}

// checkShares is about the capacity of a device that several may have.
func (o *Offer) checkShares() string {
	if !o.Shared && len(o.Capacity)+len(o.Uses)+len(o.Held) > 0 {
		return "it has capacity for shares, and is not shared"
	}
	known := make(map[string]bool, len(o.Capacity))
	for _, c := range o.Capacity {
		if c.Name == "" || known[c.Name] || strings.ContainsAny(c.Name, "?#&=") || c.Amount < 0 || c.Amount > MaxAmount {
			return fmt.Sprintf("capacity %q of %d makes no sense, or is there twice", c.Name, c.Amount)
		}
		known[c.Name] = true
	}
	for _, text := range o.Held {
		if s, ok := ParseShare(text); !ok || s.Device != o.ID || s.Name == "" {
			return fmt.Sprintf("%q is no share of it with a name", text)
		}
	}
	for i, u := range o.Uses {
		if i > 0 && o.Uses[i-1].Selection >= u.Selection {
			return "uses are not sorted by selection"
		}
		for _, d := range u.Draws {
			if !known[d.Counter] || d.Amount < 0 || d.Amount > MaxAmount {
				return fmt.Sprintf("a share draws %d on capacity %s", d.Amount, d.Counter)
			}
		}
	}
	return ""
}
