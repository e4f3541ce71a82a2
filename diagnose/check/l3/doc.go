// Package l3 has the causes of scheduling: the pod is not created or not admitted, its queue has no room for it, or no node
// takes it. Each cause is a file and a line in list.go. Package diagnose runs them.
package l3
