# The controller as an image: one static binary, certificates, nothing else.
# Of the image that it is built in only the certificates get in. Name that image by
# the digest that you have checked: --build-arg GO_IMAGE=golang@sha256:...
ARG GO_IMAGE=golang:1.27
FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The binary depends on the sources and Go's version only, not on where or when
# it was built.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -o /out/poolwright ./cmd/poolwright

FROM scratch
LABEL org.opencontainers.image.title="poolwright" \
      org.opencontainers.image.description="GitOps for GPU node pools on Amazon EKS, with Karpenter embedded" \
      org.opencontainers.image.source="https://github.com/poolwright/poolwright" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/poolwright /poolwright
COPY LICENSE NOTICE /
USER 65532:65532
ENTRYPOINT ["/poolwright"]
CMD ["run"]
