package engine

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/describe"
	"github.com/berth-dev/berth/engine/why"
)

// How answers read.

// Describe writes a plan for people and golden files: starts, evictions, promises, waits with all their gates, edits of memory
// in one line, and when to look again, from the plan's own moment.
func Describe(p Plan) string { return describe.Plan(p) }

// DescribeExplanation writes an explanation with every row of its certificates.
func DescribeExplanation(e why.Explanation) string { return describe.Explanation(e) }

// DescribeReport writes a report: a line for all, one for each pool, one for each model's largest jobs.
func DescribeReport(r Report) string { return describe.Report(r) }

// DescribeQueues writes queues, in the order of the tree and indented by it: what each is promised, may have and uses,
// what waits in it, and what there is to warn of.
func DescribeQueues(uses []QueueUse) string { return describe.Queues(uses) }

// DescribeForecast writes estimates, one a line, from the moment they were made.
func DescribeForecast(now time.Time, all []Estimate) string { return describe.Forecast(now, all) }

// DescribeRejected writes rejections, one a line.
func DescribeRejected(all []Rejected) string { return describe.Rejected(all) }
