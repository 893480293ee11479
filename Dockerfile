# The controller as an image: one static binary, certificates, nothing else. Without a container
# tool, make image builds the same for two architectures, and pushes it.
# Of the image that it is built in only the certificates get in. Name that image by
# the digest that you have checked: --build-arg GO_IMAGE=golang@sha256:...
ARG GO_IMAGE=golang:1.27
FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# What poolwright version prints: --build-arg VERSION=v1.0.0 --build-arg REVISION=$(git rev-parse HEAD)
ARG VERSION=dev
ARG REVISION=
# The binary depends on the sources, these two and Go's version only, not on where or when
# it was built.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /out/poolwright \
    -ldflags="-s -w -X github.com/poolwright/poolwright/cmd/internal/cli.version=${VERSION} -X github.com/poolwright/poolwright/cmd/internal/cli.revision=${REVISION}" \
    ./cmd/poolwright

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
