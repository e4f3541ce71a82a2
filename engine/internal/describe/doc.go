// Package describe writes the engine's answers for people and golden files: plans, explanations, reports, queues, forecasts
// and rejected objects. The sentences of gates and certificates are why's; here they are put together, pods and nodes with
// neighbouring numbers are folded into ranges, and times are told from the plan's own moment.
//
// It keeps nothing and derives nothing: the same value is always written alike. It costs what is written.
package describe
