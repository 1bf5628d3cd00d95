"""A small GPU cluster in plain pulumi_aws, as any user would write it: the test program of the stand-in, without a reference to it."""

import base64
import json

import pulumi
import pulumi_aws as aws

config = pulumi.Config()
workers = config.get_int("workers") or 2
tags = {"rackwright.stack": pulumi.get_stack()}

zone = aws.get_availability_zones(state="available").names[0]
account = aws.get_caller_identity().account_id
ubuntu = aws.ssm.get_parameter(name="/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id").insecure_value
same = aws.ec2.get_ami(
    most_recent=True, owners=["099720109477"], filters=[{"name": "name", "values": ["ubuntu/images/*/ubuntu-noble-24.04-amd64-server-*"]}]
)

vpc = aws.ec2.Vpc("net", cidr_block="10.60.0.0/16", enable_dns_hostnames=True, tags=tags)
outer = aws.ec2.Subnet("outer", vpc_id=vpc.id, cidr_block="10.60.0.0/24", availability_zone=zone, map_public_ip_on_launch=True, tags=tags)
inner = aws.ec2.Subnet("inner", vpc_id=vpc.id, cidr_block="10.60.16.0/20", availability_zone=zone, tags=tags)
gateway = aws.ec2.InternetGateway("gateway", vpc_id=vpc.id, tags=tags)
nat_address = aws.ec2.Eip("nat", domain="vpc", tags=tags)
nat = aws.ec2.NatGateway("nat", allocation_id=nat_address.id, subnet_id=outer.id, tags=tags)
outer_table = aws.ec2.RouteTable("outer", vpc_id=vpc.id, routes=[{"cidr_block": "0.0.0.0/0", "gateway_id": gateway.id}], tags=tags)
inner_table = aws.ec2.RouteTable("inner", vpc_id=vpc.id, tags=tags)
aws.ec2.Route("inner-out", route_table_id=inner_table.id, destination_cidr_block="0.0.0.0/0", nat_gateway_id=nat.id)
aws.ec2.RouteTableAssociation("outer", subnet_id=outer.id, route_table_id=outer_table.id)
aws.ec2.RouteTableAssociation("inner", subnet_id=inner.id, route_table_id=inner_table.id)
aws.ec2.VpcEndpoint(
    "s3",
    vpc_id=vpc.id,
    service_name=f"com.amazonaws.{aws.get_region().region}.s3",
    vpc_endpoint_type="Gateway",
    route_table_ids=[inner_table.id],
    tags=tags,
)

door = aws.ec2.SecurityGroup(
    "door",
    vpc_id=vpc.id,
    description="ssh from outside",
    ingress=[{"protocol": "tcp", "from_port": 22, "to_port": 22, "cidr_blocks": ["192.0.2.0/24"]}],
    tags=tags,
)
files = aws.ec2.SecurityGroup(
    "files",
    vpc_id=vpc.id,
    ingress=[
        {"protocol": "tcp", "from_port": 988, "to_port": 988, "self": True, "description": "Lustre"},
        {"protocol": "tcp", "from_port": 988, "to_port": 988, "cidr_blocks": ["10.60.16.0/20"], "security_groups": [door.id]},
    ],
    egress=[{"protocol": "-1", "from_port": 0, "to_port": 0, "cidr_blocks": ["0.0.0.0/0"], "ipv6_cidr_blocks": ["::/0"]}],
    tags=tags,
)
inside = aws.ec2.SecurityGroup("inside", vpc_id=vpc.id, description="nodes among themselves", tags=tags)
aws.vpc.SecurityGroupIngressRule("inside", security_group_id=inside.id, referenced_security_group_id=inside.id, ip_protocol="-1", tags=tags)
aws.vpc.SecurityGroupEgressRule("inside", security_group_id=inside.id, referenced_security_group_id=inside.id, ip_protocol="-1", tags=tags)
aws.vpc.SecurityGroupEgressRule("web", security_group_id=inside.id, cidr_ipv4="0.0.0.0/0", ip_protocol="tcp", from_port=443, to_port=443)

trust = aws.iam.get_policy_document(
    statements=[{"actions": ["sts:AssumeRole"], "principals": [{"type": "Service", "identifiers": ["ec2.amazonaws.com"]}]}]
)
role = aws.iam.Role("node", assume_role_policy=trust.json, tags=tags)
aws.iam.Role("reader", assume_role_policy=trust.json, managed_policy_arns=["arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"], tags=tags)
aws.iam.RolePolicyAttachment("ssm", role=role.name, policy_arn="arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore")
profile = aws.iam.InstanceProfile("node", role=role.name, tags=tags)

bucket = aws.s3.Bucket("data", force_destroy=True, tags=tags)
aws.s3.BucketPublicAccessBlock("data", bucket=bucket.id, block_public_acls=True, block_public_policy=True)
aws.s3.BucketVersioning("data", bucket=bucket.id, versioning_configuration={"status": "Enabled"})
aws.s3.BucketServerSideEncryptionConfiguration(
    "data", bucket=bucket.id, rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}]
)
aws.iam.RolePolicy(
    "data",
    role=role.id,
    policy=bucket.arn.apply(
        lambda arn: json.dumps(
            {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{arn}/*"}]}
        )
    ),
)
lustre = aws.fsx.LustreFileSystem(
    "scratch",
    subnet_ids=inner.id,
    storage_capacity=config.get_int("capacity") or 1200,
    deployment_type="PERSISTENT_2",
    per_unit_storage_throughput=125,
    security_group_ids=[files.id],
    tags=tags,
)
aws.fsx.DataRepositoryAssociation(
    "data",
    file_system_id=lustre.id,
    file_system_path="/data",
    data_repository_path=bucket.bucket.apply(lambda name: f"s3://{name}"),
    s3={"auto_import_policy": {"events": ["NEW", "CHANGED"]}},
    tags=tags,
)

key = aws.ec2.KeyPair("key", public_key=config.require("key"), tags=tags)
group = aws.ec2.PlacementGroup("tight", strategy="cluster", name=config.get("group"), tags=tags)
reserved = aws.ec2.CapacityReservation(
    "reserved",
    availability_zone=zone,
    instance_type="p5.48xlarge",
    instance_platform="Linux/UNIX",
    instance_count=workers,
    instance_match_criteria="targeted",
    tags=tags,
)
template = aws.ec2.LaunchTemplate(
    "worker",
    image_id=ubuntu,
    instance_type="p5.48xlarge",
    key_name=key.key_name,
    iam_instance_profile={"arn": profile.arn},
    placement={"group_name": group.name, "availability_zone": zone},
    capacity_reservation_specification={"capacity_reservation_target": {"capacity_reservation_id": reserved.id}},
    metadata_options={"http_tokens": config.get("tokens") or "required"},
    network_interfaces=[
        {
            "network_card_index": card,
            "device_index": int(card > 0),
            "interface_type": "efa-only" if card else "efa",
            "subnet_id": inner.id,
            "security_groups": [inside.id],
            "delete_on_termination": "true",
        }
        for card in range(8)
    ],
    block_device_mappings=[
        {"device_name": "/dev/sda1", "ebs": {"volume_size": 100, "volume_type": "gp3", "delete_on_termination": "true"}}
    ],
    monitoring={"enabled": True},
    tag_specifications=[{"resource_type": "instance", "tags": tags}],
    tags=tags,
)
nodes = [
    aws.ec2.Instance(
        f"worker{number}",
        launch_template={"id": template.id, "version": template.latest_version.apply(str)},
        user_data=pulumi.Output.format("#!/bin/sh\nmount -t lustre {0}@tcp:/{1} /scratch\n", lustre.dns_name, lustre.mount_name),
        tags={**tags, "Name": f"worker{number}"},
        # The reservation is full: the old instance must be deleted before the new one fits.
        opts=pulumi.ResourceOptions(delete_before_replace=True),
    )
    for number in range(workers)
]
login = aws.ec2.Instance(
    "login",
    ami=same.image_id,
    instance_type=config.get("login") or "t3.small",
    subnet_id=outer.id,
    vpc_security_group_ids=[door.id, inside.id],
    key_name=key.key_name,
    iam_instance_profile=profile.name,
    associate_public_ip_address=True,
    root_block_device={"volume_size": 30, "volume_type": "gp3", "encrypted": True},
    metadata_options={"http_tokens": "required", "http_put_response_hop_limit": 1},
    tags={**tags, "Name": "login"},
)
login_address = aws.ec2.Eip("login", domain="vpc", tags=tags)
aws.ec2.EipAssociation("login", allocation_id=login_address.id, instance_id=login.id)
cheap = aws.ec2.LaunchTemplate(
    "cheap",
    image_id=ubuntu,
    instance_type="c7i.large",
    instance_market_options={"market_type": "spot", "spot_options": {"max_price": "0.1", "spot_instance_type": "one-time"}},
    vpc_security_group_ids=[inside.id],
    user_data=base64.b64encode(b"#!/bin/sh").decode(),
)
spot = aws.ec2.Instance(
    "spot",
    launch_template={"id": cheap.id, "version": "$Latest"},
    subnet_id=inner.id,
    tags={**tags, "Name": "spot"},
)
disk = aws.ebs.Volume("home", availability_zone=zone, size=config.get_int("size") or 20, type="gp3", tags=tags)
aws.ec2.VolumeAttachment("home", volume_id=disk.id, instance_id=login.id, device_name="/dev/sdf")
spare = aws.ec2.NetworkInterface("spare", subnet_id=inner.id, security_groups=[inside.id], interface_type="efa", tags=tags)

aws.budgets.Budget(
    "month",
    budget_type="COST",
    limit_amount=config.get("limit") or "100",
    limit_unit="USD",
    time_unit="MONTHLY",
    notifications=[
        {
            "comparison_operator": "GREATER_THAN",
            "threshold": 80,
            "threshold_type": "PERCENTAGE",
            "notification_type": "ACTUAL",
            "subscriber_email_addresses": ["ops@example.org"],
        }
    ],
)
aws.scheduler.Schedule(
    "stop-at-night",
    flexible_time_window={"mode": "OFF"},
    schedule_expression=config.get("night") or "cron(0 20 * * ? *)",
    target={
        "arn": "arn:aws:scheduler:::aws-sdk:ec2:stopInstances",
        "role_arn": role.arn,
        "input": pulumi.Output.all(*(node.id for node in nodes)).apply(lambda ids: json.dumps({"InstanceIds": ids})),
    },
)

pulumi.export("account", account)
pulumi.export("one image", pulumi.Output.from_input(ubuntu == same.image_id))
pulumi.export("login", login_address.public_ip)
pulumi.export("workers", [node.id for node in nodes])
pulumi.export("worker addresses", [node.private_ip for node in nodes])
pulumi.export("mount", lustre.mount_name)
pulumi.export("spot", spot.instance_lifecycle)
pulumi.export("subnet of the file system", lustre.subnet_ids)
pulumi.export("spare", spare.mac_address)
