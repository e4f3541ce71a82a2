// Package l2 has the causes of provisioning: nodes that do not come, are not ready or do not offer their GPUs, and
// autoscalers that make none. Each cause is a file and a line in list.go. Package diagnose runs them.
package l2
