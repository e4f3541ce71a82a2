package convert

import (
	"maps"
	"math"
	"math/big"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/engine"
)

// Capacity that claims consume (DRAConsumableCapacity). A device with allowMultipleAllocations is had in shares. What a share consumes of each
// capacity follows from the request and from the capacity's requestPolicy, as upstream's allocator has it (k8s.io/dynamic-resource-allocation
// v0.37.1, structured/internal/experimental/consumable_capacity.go): what is not requested is the default or, without one, all of it; what is
// requested is rounded up to the next valid value. A device that is had whole must have the capacity that is requested of it all the same.

// Shared says whether several claims may have the device at a time.
func (d *OfferedDevice) Shared() bool {
	return d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
}

// consumption is what a request consumes of a device.
type consumption struct {
	of     map[resourcev1.QualifiedName]resource.Quantity
	fits   bool // the device has so much when nobody has a share of it
	broken bool // a value cannot be counted with: upstream gives up
}

// consumes is what a request with these amounts consumes of the device.
func (d *OfferedDevice) consumes(wanted map[resourcev1.QualifiedName]resource.Quantity) consumption {
	out := consumption{of: make(map[resourcev1.QualifiedName]resource.Quantity, len(d.Capacity)), fits: true}
	//archtest:any-order it asks whether there is one
	for name := range wanted {
		if _, has := d.Capacity[name]; !has {
			out.fits = false // another device may have it
			return out
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		c := d.Capacity[name]
		amount := c.Value
		if c.RequestPolicy != nil && c.RequestPolicy.Default != nil {
			amount = *c.RequestPolicy.Default
		}
		asked, is := wanted[name]
		if is {
			var ok bool
			if amount, ok = roundUp(asked, c.RequestPolicy); !ok {
				out.broken = true
			}
		}
		out.of[name] = amount
		out.broken = out.broken || amount.Sign() < 0
		out.fits = out.fits && isValid(amount, c.RequestPolicy) && amount.Cmp(c.Value) <= 0
	}
	return out
}

// roundUp is the least valid amount that is not less than the one that is asked for, or that one where there is none; ok is false where it
// is too large to be counted with.
func roundUp(asked resource.Quantity, p *resourcev1.CapacityRequestPolicy) (amount resource.Quantity, ok bool) {
	switch {
	case p == nil:
	case p.ValidRange != nil && p.ValidRange.Min != nil:
		r := p.ValidRange
		if asked.Cmp(*r.Min) < 0 {
			return *r.Min, true
		}
		if r.Step != nil {
			return nextStep(asked, r)
		}
	case p.ValidValues != nil:
		for _, v := range p.ValidValues {
			if asked.Cmp(v) <= 0 {
				return v, true
			}
		}
	}
	return asked, true
}

// nextStep rounds up to a number of steps above the range's least value: in thousandths, if all of the range is whole in these, or else in units.
func nextStep(asked resource.Quantity, r *resourcev1.CapacityRequestPolicyRange) (resource.Quantity, bool) {
	in := resource.Milli
	if !inMilli(r) {
		in = resource.Scale(0)
	} else if !isWhole(&asked, in) {
		return asked, false
	}
	least, step, v := r.Min.ScaledValue(in), r.Step.ScaledValue(in), new(big.Int).SetInt64(asked.ScaledValue(in))
	if step <= 0 || asked.Cmp(*resource.NewScaledQuantity(math.MaxInt64, in)) > 0 {
		return asked, false
	}
	v.Sub(v, big.NewInt(least))
	v.Add(v, big.NewInt(step-1)).Div(v, big.NewInt(step)).Mul(v, big.NewInt(step)).Add(v, big.NewInt(least))
	if !v.IsInt64() {
		return asked, false
	}
	return *resource.NewScaledQuantity(v.Int64(), in), true
}

// inMilli says whether all of the range is whole in thousandths.
func inMilli(r *resourcev1.CapacityRequestPolicyRange) bool {
	for _, q := range []*resource.Quantity{r.Min, r.Max, r.Step} {
		if q != nil && !isWhole(q, resource.Milli) {
			return false
		}
	}
	return r.Step == nil || r.Step.MilliValue() >= 1
}

func isWhole(q *resource.Quantity, in resource.Scale) bool {
	return q.Cmp(*resource.NewScaledQuantity(q.ScaledValue(in), in)) == 0
}

// isValid says whether the policy allows the amount.
func isValid(amount resource.Quantity, p *resourcev1.CapacityRequestPolicy) bool {
	switch {
	case p == nil || p.Default != nil && amount.Cmp(*p.Default) == 0:
		return true
	case p.ValidRange != nil:
		r := p.ValidRange
		if r.Max != nil && amount.Cmp(*r.Max) > 0 {
			return false
		}
		if r.Step == nil || r.Min == nil {
			return true
		}
		in := resource.Milli
		if !inMilli(r) {
			in = resource.Scale(0)
		}
		step := r.Step.ScaledValue(in)
		return isWhole(&amount, in) && step > 0 && (amount.ScaledValue(in)-r.Min.ScaledValue(in))%step == 0
	case len(p.ValidValues) > 0:
		return slices.ContainsFunc(p.ValidValues, func(v resource.Quantity) bool { return amount.Cmp(v) == 0 })
	}
	return true
}

// The engine counts capacity in whole numbers: in thousandths, or in units where there is too much of it. What there is is rounded down, and
// what is consumed up.

// scaleOf is in which the capacity is counted.
func scaleOf(c resourcev1.DeviceCapacity) resource.Scale {
	if c.Value.CmpInt64(engine.MaxAmount/1000) <= 0 {
		return resource.Milli
	}
	return 0
}

// capacity is what shares of the device draw on, by name.
func (d *OfferedDevice) capacity() (out []engine.Counter) {
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		c := d.Capacity[name]
		in := scaleOf(c)
		amount := clampAmount(c.Value.ScaledValue(in))
		if !isWhole(&c.Value, in) && amount > 0 {
			amount-- // ScaledValue rounds up
		}
		out = append(out, engine.Counter{Name: string(name), Amount: amount})
	}
	return out
}

// drawn is what is consumed as the engine counts it, by name. What the device does not have is left out.
func (d *OfferedDevice) drawn(of map[resourcev1.QualifiedName]resource.Quantity) (out []engine.Draw) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if c, has := d.Capacity[name]; has {
			q := of[name]
			out = append(out, engine.Draw{Counter: string(name), Amount: clampAmount(q.ScaledValue(scaleOf(c)))})
		}
	}
	return out
}

// Share is what a claim has of the device, as the engine writes it: a share by its ID, or else the whole.
func (d *OfferedDevice) Share(r *resourcev1.DeviceRequestAllocationResult) string {
	if r.ShareID == nil {
		return d.ID
	}
	s := engine.Share{Device: d.ID, Draws: d.drawn(r.ConsumedCapacity), Name: string(*r.ShareID)}
	return s.String()
}

// Beside is the amounts of the device's capacity that are consumed where only so much as the draws say is left, as quantities.
func (d *OfferedDevice) Beside(draws []engine.Draw) map[resourcev1.QualifiedName]resource.Quantity {
	out := make(map[resourcev1.QualifiedName]resource.Quantity, len(d.Capacity))
	//archtest:any-order it fills a map
	for name, c := range d.Capacity {
		left := int64(0)
		for _, x := range draws {
			if x.Counter == string(name) {
				left += x.Amount
			}
		}
		q := c.Value.DeepCopy()
		q.Sub(*resource.NewScaledQuantity(left, scaleOf(c)))
		if q.Sign() < 0 {
			q = resource.Quantity{}
		}
		out[name] = q
	}
	return out
}

// PartOfGPU is what a share that draws so much is of a GPU, in thousandths: the largest part of a capacity. Of one that has none, and of
// devices that are no GPUs, it is nothing.
func (d *OfferedDevice) PartOfGPU(draws []engine.Draw) (most int64) {
	if !d.isGPU() {
		return 0
	}
	for _, x := range draws {
		c := d.Capacity[resourcev1.QualifiedName(x.Counter)]
		if all := clampAmount(c.Value.ScaledValue(scaleOf(c))); all > 0 {
			most = max(most, min(engine.Whole, int64(math.Ceil(float64(x.Amount)*float64(engine.Whole)/float64(all)))))
		}
	}
	return most
}
