package doctor

// Items is the checklist, in the order in which a person would go through it: machines, their software, what is measured,
// what may use them, what is promised, and how it is used.
var Items = []*Item{
	&nodesItem,
	&driversItem,
	&devicePluginItem,
	&operatorsItem,
	&capacityItem,
	&labelsItem,
	&mixedModelsItem,
	&fabricItem,
	&throttlingItem,
	&xidItem,
	&eccItem,
	&taintsItem,
	&prioritiesItem,
	&quotasItem,
	&queuesItem,
	&autoscalerItem,
	&utilisationItem,
	&unattributedItem,
}
