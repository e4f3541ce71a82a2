// Package signs reads what is in plain view around one case and speaks against "all is well": gates, conditions, states of
// containers, the pod's node, its scheduler, its claims, and whatever any controller, known here or not, reports of an object
// in the pod's chain of owners and references. It proves nothing and names no cause. Package diagnose calls work healthy only
// where there is no sign against it, and the check controller-reports words signs that nothing else explains.
package signs
