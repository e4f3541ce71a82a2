package cli

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/bill"
)

// costVersion is of the JSON of `berth cost`.
//
//	1  2026-11-17  first
//	2  2026-11-19  unusedBy (ADR 227)
const costVersion = 2

// costView is a bill as JSON. GPU-time is in milliseconds of a GPU, money in millionths.
type costView struct {
	Version  int       `json:"version"`
	By       string    `json:"by"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Seen     int64     `json:"seenMilliseconds"`   // that the log covers
	Unseen   int64     `json:"unseenMilliseconds"` // between runs of the scheduler; on no line
	Measured bool      `json:"idleMeasured"`       // somebody measured whether allocated GPUs are idle
	Rows     []costRow `json:"rows"`
	Unused   costRow   `json:"unused"`
	// UnusedBy is Unused by the last stage that its GPUs reached, named as in `berth capacity`; it adds up to Unused.
	UnusedBy []costRow `json:"unusedBy"`
	// Paid is the sum of all rows and of what nobody used.
	Paid     costRow  `json:"paid"`
	Problems []string `json:"problems,omitempty"` // what of the past, or of prices, is missing
}

type costRow struct {
	Name      string            `json:"name"` // "": unattributed
	Used      int64             `json:"gpuMilliseconds"`
	Unpriced  int64             `json:"unpricedGPUMilliseconds"` // of these, at a price that nobody gave
	Cost      []capacity.Amount `json:"cost"`                    // of the others
	Idle      int64             `json:"idleGPUMilliseconds"`
	Waiting   int64             `json:"waitingGPUMilliseconds"`
	MeanWait  int64             `json:"meanWaitMilliseconds"` // of a pod that waited
	Waited    int64             `json:"waitedPods"`
	Lost      int64             `json:"lostGPUMilliseconds"` // to preemption
	Preempted int64             `json:"preemptedPods"`
	Share     []capacity.Amount `json:"shareOfUnused"`

	priced []int64 // thousandths of GPU-milliseconds, as bill.Line has them
}

func (v *costView) fill(r *bill.Report) {
	v.From, v.To, v.Seen, v.Unseen, v.Measured = r.From.UTC(), r.To.UTC(), r.Seen, r.Unseen, r.Measured
	v.Rows = []costRow{}
	for i := range r.Lines {
		v.Rows = append(v.Rows, costRowOf(&r.Lines[i]))
	}
	v.Unused, v.Paid = costRowOf(&r.Unused), costRowOf(&r.Paid)
	v.Unused.Name, v.Paid.Name = "unused", "paid"
	v.UnusedBy = []costRow{}
	for i := range r.UnusedBy {
		v.UnusedBy = append(v.UnusedBy, costRowOf(&r.UnusedBy[i]))
	}
}

func costRowOf(l *bill.Line) costRow {
	const milli = bill.Hour / 3_600_000
	row := costRow{
		Name: l.Name, Used: l.Used / milli, Unpriced: l.Unpriced / milli, Cost: append([]capacity.Amount{}, l.Cost...), Idle: l.Idle / milli, Waiting: l.Waiting / milli,
		Waited: l.Waited, Lost: l.Lost / milli, Preempted: l.Evicted, Share: append([]capacity.Amount{}, l.Share...), priced: l.Priced,
	}
	if l.Waited > 0 {
		row.MeanWait = l.Waits / l.Waited
	}
	return row
}

func (v *costView) print(o *costOptions) error {
	if o.output == "csv" {
		return v.csv(o)
	}
	if done, err := printData(o.streams.Out, v, o.output); done {
		return err
	}
	_, err := fmt.Fprint(o.streams.Out, o.titled()+v.text(width(o.streams.Out)))
	return err
}

// titled says which cluster was asked; a folder says it by itself.
func (o *costOptions) titled() string {
	if o.dir != "" {
		return ""
	}
	return o.asked()
}

func (v *costView) text(columns int) string {
	var b strings.Builder
	t := table{columns: []column{
		{head: strings.ToUpper(v.By)}, {head: "GPU-HOURS"}, {head: "COST"}, {head: "IDLE", spare: 3}, {head: "WAITING", spare: 2}, {head: "MEAN WAIT", spare: 4}, {head: "LOST", spare: 1},
		{head: "OF UNUSED"}, {head: "WITH IT"},
	}}
	for _, r := range v.Rows {
		t.add(v.cells(cmp.Or(r.Name, "(no "+v.By+")"), &r)...)
	}
	t.add(v.cells("(unused)", &v.Unused)...)
	t.add(v.cells("paid", &v.Paid)...)
	t.write(&b, columns)
	fmt.Fprintf(&b, "\n%s to %s. GPU-hours; IDLE is held and measured to do nothing, WAITING asked for and not had, LOST work to do again after preemption.\n",
		v.From.Local().Format(time.RFC3339), v.To.Local().Format(time.RFC3339))
	if len(v.UnusedBy) > 0 {
		fmt.Fprintf(&b, "Unused: %s.\n", strings.Join(v.unused(), ", "))
	}
	if v.Paid.Unpriced > 0 {
		fmt.Fprintf(&b, "Unknown is the price of %s of %s GPU-hours: their Reservation or Pool has none.\n", gpuHours(v.Paid.Unpriced), gpuHours(v.Paid.Used))
	}
	if v.Unseen > 0 {
		fmt.Fprintf(&b, "For %s the scheduler did not record: that time is on no line.\n", (time.Duration(v.Unseen) * time.Millisecond).Round(time.Second))
	}
	for _, p := range v.Problems {
		fmt.Fprintf(&b, "Missing: %s.\n", cell(p))
	}
	return b.String()
}

// unusedWords say what GPUs are that came as far as a stage and no further, as the decision log tells.
var unusedWords = map[string]string{
	capacity.Paid.String(): "of reservations and no node", capacity.Registered.String(): "on nodes that were not Ready", capacity.Ready.String(): "not advertised by their nodes",
	capacity.Advertised.String(): "unhealthy", capacity.Healthy.String(): "on nodes that took no new work", capacity.Schedulable.String(): "free",
}

func (v *costView) unused() (out []string) {
	for _, r := range v.UnusedBy {
		out = append(out, gpuHours(r.Used)+" "+cmp.Or(unusedWords[r.Name], r.Name))
	}
	return out
}

func (v *costView) cells(name string, r *costRow) []string {
	idle := gpuHours(r.Idle)
	if !v.Measured {
		idle = "?"
	}
	wait, lost, share, with := "-", "-", "-", "-"
	if r.Waited > 0 {
		wait = (time.Duration(r.MeanWait) * time.Millisecond).Round(time.Second).String()
	}
	if r.Preempted > 0 {
		lost = fmt.Sprintf("%s (%s)", gpuHours(r.Lost), plural(int(r.Preempted), "pod"))
	}
	if len(r.Share) > 0 {
		share = money(r.Share, 1, 0)
		all := slices.Clone(r.Cost)
		for _, a := range r.Share {
			all = capacity.Plus(all, a.Currency, a.Micro)
		}
		with = r.money(all)
	}
	return []string{name, gpuHours(r.Used), r.money(r.Cost), idle, gpuHours(r.Waiting), wait, lost, share, with}
}

// money is amounts for people; what has no price is said.
func (r *costRow) money(all []capacity.Amount) string {
	var out []string
	for _, a := range all {
		out = append(out, a.Micro.Cents()+" "+a.Currency)
	}
	switch {
	case r.Unpriced > 0 && len(out) == 0:
		return "unknown"
	case r.Unpriced > 0:
		out = append(out, gpuHours(r.Unpriced)+" h unknown")
	case len(out) == 0:
		return "-"
	}
	return strings.Join(out, " + ")
}

// gpuHours is GPU-time for people.
func gpuHours(milliseconds int64) string {
	if milliseconds == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3f", float64(milliseconds)/3_600_000)
}

// focusHead are columns of FOCUS 1.2, and our own, which begin with x_.
var focusHead = []string{
	"BilledCost", "BillingCurrency", "BillingPeriodStart", "BillingPeriodEnd", "ChargeCategory", "ChargeDescription", "ChargePeriodStart", "ChargePeriodEnd",
	"ConsumedQuantity", "ConsumedUnit", "EffectiveCost", "ServiceCategory", "ServiceName", "Tags",
	"x_ShareOfUnused", "x_IdleGPUHours", "x_WaitingGPUHours", "x_LostGPUHours",
}

// csv writes a line for each row and currency, and one for what has no price: its cost is empty, never zero.
func (v *costView) csv(o *costOptions) error {
	w := csv.NewWriter(o.streams.Out)
	if err := w.Write(focusHead); err != nil {
		return err
	}
	lines := [][]string{}
	for i := range v.Rows {
		lines = append(lines, v.focus(&v.Rows[i])...)
	}
	if err := w.WriteAll(append(lines, v.focus(&v.Unused)...)); err != nil {
		return err
	}
	w.Flush()
	return w.Error()
}

func (v *costView) focus(r *costRow) (out [][]string) {
	tags, what := map[string]string{v1alpha1.KeyPrefix + v.By: r.Name}, "GPUs held by "+v.By+" "+r.Name
	switch {
	case r == &v.Unused:
		tags, what = map[string]string{}, "GPUs that nobody held"
	case r.Name == "":
		tags, what = map[string]string{}, "GPUs held without a "+v.By
	}
	text, _ := json.Marshal(tags)
	from, to := v.From.Format(time.RFC3339), v.To.Format(time.RFC3339)
	add := func(cost, currency, hours, share string) {
		line := []string{cost, currency, from, to, "Usage", what, from, to, hours, "GPU-Hours", cost, "Compute", "GPU cluster", string(text), share, "", "", ""}
		if len(out) == 0 { // of the row, not of a currency
			line[15], line[16], line[17] = decimalHours(r.Idle), decimalHours(r.Waiting), decimalHours(r.Lost)
		}
		out = append(out, line)
	}
	for i, a := range r.Cost {
		share := ""
		if j := slices.IndexFunc(r.Share, func(s capacity.Amount) bool { return s.Currency == a.Currency }); j >= 0 {
			share = r.Share[j].Micro.Text()
		}
		add(a.Micro.Text(), a.Currency, decimalHours(r.priced[i]/1000), share)
	}
	for _, s := range r.Share {
		if !slices.ContainsFunc(r.Cost, func(a capacity.Amount) bool { return a.Currency == s.Currency }) {
			add("0.00", s.Currency, "0", s.Micro.Text())
		}
	}
	if r.Unpriced > 0 || len(out) == 0 {
		add("", "", decimalHours(r.Unpriced), "")
	}
	return out
}

// decimalHours is GPU-milliseconds as GPU-hours with six digits, rounded down.
func decimalHours(milliseconds int64) string {
	return fmt.Sprintf("%d.%06d", milliseconds/3_600_000, milliseconds%3_600_000*10/36)
}
