package offerings

import "github.com/poolwright/poolwright/provision"

// The codes of what is left open.
const (
	codeRegionWithoutPrices        provision.UnknownCode = "RegionWithoutPrices"
	codeNodeCapacityUnknown        provision.UnknownCode = "NodeCapacityUnknown"
	codePriceMissing               provision.UnknownCode = "PriceMissing"
	codeEnclaveSupportUnknown      provision.UnknownCode = "EnclaveSupportUnknown"
	codeReservationsUnknown        provision.UnknownCode = "ReservationsUnknown"
	codeReservationCapacityUnknown provision.UnknownCode = "ReservationCapacityUnknown"
	codeNodeOverlayRefused         provision.UnknownCode = "NodeOverlayRefused"
	codeOfferingsRefused           provision.UnknownCode = "OfferingsRefused"
)
