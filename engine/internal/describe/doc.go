// Package describe writes the engine's answers for people and golden files: plans, explanations, reports, queues, forecasts
// and rejected objects. Package why makes the sentences of gates and certificates; describe puts them together, folds pods
// and nodes with consecutive numbers into ranges, and writes times relative to the plan's own.
//
// It keeps nothing and derives nothing: equal values give equal text. The cost is proportional to the text.
package describe
