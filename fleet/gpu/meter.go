package gpu

import (
	"hash/fnv"
	"math"
	"time"
)

// Load is what one program asks of a GPU, or of an instance of it, from one moment to another. Moments are simulated time
// since the machine started.
type Load struct {
	From, To time.Duration // To is Still while the program works
	Share    float64       // of the GPU that it keeps busy, 0 to 1
	Linked   bool          // it talks to its other GPUs over NVLink
}

// Still is the end of a load that has none yet.
const Still = time.Duration(math.MaxInt64)

// How a board answers to load. Utilization and power are averages over about a second, temperature follows power slowly.
const (
	busyLag = 600 * time.Millisecond
	heatLag = 25 * time.Second

	coolC = 28.0 // of a board that draws nothing
	heatC = 42.0 // that its power limit adds
)

// Meter is what a GPU has done since its machine started, and how warm it is. It is a value of the loads alone: whether
// somebody looked in between changes nothing, so that nothing has to run while nobody looks. All between two changes of load
// is solved in closed form, at the cost of a few exponentials.
type Meter struct {
	device Device
	seed   uint64
	at     time.Duration

	busy, link float64 // share of the GPU and of its NVLinks that is in use, averaged
	temp       float64 // degrees Celsius
	joules     float64
	linkBytes  float64

	trouble        Trouble // as of at
	power, thermal float64 // seconds in which the clock was held down, by reason
}

// Suffer tells what is wrong with the GPU from the moment on up to which the meter was advanced.
func (m *Meter) Suffer(t Trouble) { m.trouble = t }

// NewMeter is that of a GPU that has been idle and is switched on at 0.
func NewMeter(d Device) *Meter {
	m := &Meter{device: d}
	h := fnv.New64a()
	h.Write([]byte(d.Visible()))
	m.seed = h.Sum64()
	m.temp = m.warmth(0)
	return m
}

// warmth is the temperature that the board settles at under a constant share of its power. Boards differ by some degrees,
// as their places in the air stream do.
func (m *Meter) warmth(busy float64) float64 {
	return coolC + float64(m.seed%7) - 3 + heatC*m.watts(busy)/float64(max(m.device.Model.PowerWatts, 1))
}

func (m *Meter) watts(busy float64) float64 {
	idle := float64(m.device.Model.IdleWatts)
	return idle + (float64(m.device.Model.PowerWatts)-idle)*busy
}

// Advance brings the meter to a later moment. loads are all that there were since it was last advanced; those that ended
// before do not matter. An earlier moment changes nothing.
func (m *Meter) Advance(to time.Duration, loads []Load) {
	for m.at < to {
		next, busy, link := to, 0.0, 0.0
		for _, l := range loads {
			if l.From > m.at {
				next = min(next, l.From)
				continue
			}
			if l.To <= m.at {
				continue
			}
			next = min(next, l.To)
			busy += l.Share
			if l.Linked {
				link += l.Share
			}
		}
		m.step(next-m.at, min(busy, 1), min(link, 1))
		m.at = next
	}
}

// step is d under constant load. With x the averaged load, x' = (load-x)/busyLag; the board's temperature T goes after the
// one that x would settle at: T' = (warmth(x)-T)/heatLag.
func (m *Meter) step(d time.Duration, busy, link float64) {
	s, lag, slow := d.Seconds(), busyLag.Seconds(), heatLag.Seconds()
	fast := math.Exp(-s / lag)
	busyTime := busy*s + (m.busy-busy)*lag*(1-fast) // seconds at full load
	linkTime := link*s + (m.link-link)*lag*(1-fast)

	idle := float64(m.device.Model.IdleWatts)
	m.joules += idle*s + (float64(m.device.Model.PowerWatts)-idle)*busyTime
	m.linkBytes += m.linkSpeed() * linkTime

	m.power += m.capped(s, busy)
	if m.trouble.Brake && busy > 0 {
		m.power += s
	}
	if m.trouble.Thermal && busy > 0 {
		m.thermal += s
	}

	end := m.warmth(busy)
	transient := (m.warmth(m.busy) - end) / (1 - slow/lag)
	m.temp = end + (m.temp-end-transient)*math.Exp(-s/slow) + transient*fast

	m.busy = busy + (m.busy-busy)*fast
	m.link = link + (m.link-link)*fast
}

// capped is how many of s seconds under a constant load the board spends above the power from which on it lowers its clock. The
// averaged load goes to the new one along an exponential, and passes the threshold once at most.
func (m *Meter) capped(s, busy float64) float64 {
	limit, idle := float64(m.device.Model.PowerWatts), float64(m.device.Model.IdleWatts)
	if limit <= idle {
		return 0
	}
	from := (cappedFrom*limit - idle) / (limit - idle)
	above, rises := m.busy > from, busy > from
	if above == rises {
		if above {
			return s
		}
		return 0
	}
	crossing := min(s, busyLag.Seconds()*math.Log((m.busy-busy)/(from-busy)))
	if above {
		return crossing
	}
	return s - crossing
}

// linkDuty is how much of its NVLinks a training step uses on average, in both directions together.
const linkDuty = 0.3

// linkSpeed is bytes a second over all NVLinks at full load.
func (m *Meter) linkSpeed() float64 {
	if !m.device.Linked() {
		return 0
	}
	return linkDuty * 2 * float64(m.device.Model.NVLinks) * float64(m.device.Model.LinkMBps) * 1e6
}

// Activity is the share of the GPU that is busy now, with the noise that such figures have; exactly 0 at rest.
func (m *Meter) Activity() float64 {
	if m.busy < 0.005 {
		return 0
	}
	return min(max(m.busy+0.02*min(1, 10*m.busy)*m.noise(1), 0.01), 1)
}

// Read writes what the meter shows into r. Memory and processes are not its business.
func (m *Meter) Read(r *Reading) {
	r.Activity = m.Activity()
	r.UtilPercent = int(math.Round(100 * r.Activity))
	r.MemUtilPercent = r.UtilPercent / 2
	watts := m.watts(m.busy)
	r.PowerWatts = min(int(math.Round(watts*(1+0.012*m.noise(2)))), r.Model.PowerWatts)
	r.TempC = int(math.Round(m.temp + 0.4*m.noise(3)))
	if r.Trouble.Thermal {
		r.TempC = max(r.TempC, hotC+int(m.seed%4))
	}
	r.EnergyMillijoules = uint64(m.joules * 1000)
	r.NVLinkBytes = uint64(m.linkBytes)
	r.PowerViolation = time.Duration(m.power * float64(time.Second))
	r.ThermalViolation = time.Duration(m.thermal * float64(time.Second))
	r.LinkActivity = m.link * linkDuty
}

// noise is from -1 to 1 and changes each simulated second. It follows from the device, the kind and the second alone.
func (m *Meter) noise(kind uint64) float64 {
	x := m.seed ^ kind<<56 ^ uint64(m.at/time.Second)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11)/(1<<52) - 1
}
